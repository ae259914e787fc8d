// Attention by warp groups (wgmma) from tiles that TMA loads: rows and keys that are no multiple of
// a tile, causal and other masks, grouped heads, layouts. The emulator's results of the kernel
// equal the interpreter's results of the declaration, and it finds what a kernel does too early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "heddle/dag/attention.h"
#include "meta_templates/attention_forms.h"
#include "meta_templates/changed_kernels.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Tile {
  int64_t groups = 1, keys = 64, stages = 2;
};

// Warp groups with this tile.
Schedule by_groups(const selftest::RandomProgram& p, const Tile& tile) {
  const Template t = make_template(ComputeDag(p.outputs), h200());
  Config c = t.default_config();
  for (const auto& [knob, value] :
       std::vector<std::pair<std::string, int64_t>>{{"unit", 1},
                                                    {"groups", tile.groups},
                                                    {"group_keys", tile.keys},
                                                    {"group_stages", tile.stages}})
    EXPECT_TRUE(set_knob(t, &c, knob, value)) << knob;
  return t.instantiate(c);
}

std::string check(const selftest::RandomProgram& p, const Tile& tile) {
  SCOPED_TRACE(p.text);
  const Schedule s = by_groups(p, tile);
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
  EXPECT_EQ(Schedule::from_json(s.to_json(), s.dag()).to_text(), s.to_text());
  const std::string text = to_string(lower_gpu(s, p.args()));
  EXPECT_NE(text.find("wgmma"), std::string::npos) << "no product of warp groups";
  return text;
}

Form heads_of(int64_t size, int64_t rows, int64_t keys, Mask mask = Mask::None) {
  return {.batch = 1, .rows = rows, .keys = keys, .depth = size, .cols = size, .mask = mask};
}

TEST(AttentionByGroups, RowsAndKeysOfAnyNumber) {
  const AutoSchedulerOptionsScope scope(as_declared());
  EXPECT_THAT(check(attention(heads_of(64, 64, 128)), {}), HasSubstr("wgmma.m64n64k16"));
  check(attention(heads_of(64, 70, 195)), {});
  check(attention(heads_of(64, 150, 330)), {.groups = 2, .keys = 128, .stages = 2});
  Form narrow = heads_of(64, 50, 200);
  narrow.type = bf16;
  narrow.batch = 2;
  check(attention(narrow), {.keys = 64, .stages = 3});
  check(attention(heads_of(64, 180, 150)), {.groups = 3, .keys = 64, .stages = 4});
}

TEST(AttentionByGroups, HeadsOfOtherSizes) {
  const AutoSchedulerOptionsScope scope(as_declared());
  EXPECT_THAT(check(attention(heads_of(128, 40, 150)), {.keys = 128}),
              HasSubstr("wgmma.m64n128k16"));
  check(attention(heads_of(256, 20, 70)), {});
  Form wider = heads_of(64, 30, 100);
  wider.cols = 192;
  check(attention(wider), {});
}

// A box of 64 elements is longer than the head, or the last one is. Products leave out the steps of
// the depth beyond the head.
TEST(AttentionByGroups, HeadsThatEndWithinABox) {
  const AutoSchedulerOptionsScope scope(as_declared());
  EXPECT_THAT(check(attention(heads_of(80, 64, 200)), {}), HasSubstr("unrolled for e.o in 0..5"));
  EXPECT_THAT(check(attention(heads_of(32, 70, 130)), {}), HasSubstr("unrolled for e.o in 0..2"));
  for (const int64_t size : {16, 40, 48, 96, 112, 160, 224})
    check(attention(heads_of(size, 40, 150, Mask::Causal)), {});
  check(attention(heads_of(96, 130, 300)), {.groups = 2, .keys = 128, .stages = 2});
  Form f = heads_of(80, 70, 130);
  f.cols = 32;
  f.groups = 3;
  f.type = bf16;
  check(attention(f), {});
  f = heads_of(32, 70, 130, Mask::Added);
  f.cols = 96;
  check(attention(f), {.stages = 3});
}

// Sequences shorter than the rows of a warp group.
TEST(AttentionByGroups, ShortSequences) {
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const int64_t rows : {2, 8, 16, 17, 18, 23, 31})
    check(attention(heads_of(64, rows, 100)), {});
  check(attention(heads_of(96, 16, 70)), {});
}

TEST(AttentionByGroups, MasksAndScales) {
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const Mask m : {Mask::Causal, Mask::Added, Mask::Bool}) {
    Form f = heads_of(64, 140, 200, m);
    f.scale = 0.3;
    check(attention(f), {.groups = 2});
  }
  // Blocks differ in the number of tiles; the first one has a single tile.
  check(attention(heads_of(64, 200, 200, Mask::Causal)), {.keys = 64, .stages = 2});
}

TEST(AttentionByGroups, GroupedHeadsAndLayouts) {
  const AutoSchedulerOptionsScope scope(as_declared());
  Form f = heads_of(64, 70, 130);
  f.groups = 3;
  check(attention(f), {});
  f.groups = 1;
  f.batch = 2;
  f.interleaved = true;
  check(attention(f), {});
  f.interleaved = false;
  f.divided_before = true;
  check(attention(f), {});
}

// Heads lie side by side in rows, as a projection leaves them.
TEST(AttentionByGroups, HeadsSideBySide) {
  const AutoSchedulerOptionsScope scope(as_declared());
  constexpr int64_t kHeads = 2, kSize = 64, kRows = 70;
  selftest::RandomProgram p;
  const auto heads = [&](const char* name) {
    p.inputs.push_back(placeholder({kRows, kHeads * kSize}, f16, name));
    return ops::transpose(ops::reshape(p.inputs.back(), {kRows, kHeads, kSize}), {1, 0, 2});
  };
  const Tensor q = heads("q"), k = heads("k"), v = heads("v");
  p.outputs = {ops::scaled_dot_product_attention(q, k, v)};
  p.reduce_length = kSize + kRows;
  p.text = "heads side by side";
  check(p, {});
}

// TMA loads rows of whole boxes that lie along the depth, of operands in memory.
TEST(AttentionByGroups, AreOfferedWhereTmaCanLoad) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const auto offered = [](const Form& f, const std::string& target = "cuda -gpu=h200") {
    const Template t = make_template(ComputeDag(attention(f).outputs), Target::parse(target));
    return t.knob_index("unit") >= 0;
  };
  EXPECT_TRUE(offered(heads_of(64, 64, 128)));
  EXPECT_FALSE(offered(heads_of(64, 64, 128), "cuda -gpu=a100"));
  EXPECT_TRUE(offered(heads_of(40, 64, 128)));
  EXPECT_FALSE(offered(heads_of(44, 64, 128))) << "rows of 88 bytes";
  EXPECT_FALSE(offered(heads_of(64, 64, 64))) << "a single tile";
  EXPECT_FALSE(offered(heads_of(64, 1, 384))) << "a single row";
  Form turned = heads_of(64, 64, 128);
  turned.keys_turned = true;
  EXPECT_FALSE(offered(turned));
}

// A stage that is computed where it is read is no operand that TMA can load; one at the root is.
TEST(AttentionByGroups, InTheMiddleOfANetwork) {
  const AutoSchedulerOptionsScope scope(as_declared());
  selftest::RandomProgram p;
  const auto input = [&](const Shape& shape, const char* name) {
    p.inputs.push_back(placeholder(shape, f16, name));
    return p.inputs.back();
  };
  const Tensor x = input({1, 70, 64}, "x");
  const Tensor q = ops::relu(ops::matmul(x, input({64, 64}, "wq"))),
               k = ops::relu(input({1, 70, 64}, "k")),
               v = ops::relu(ops::matmul(x, input({64, 64}, "wv")));
  p.outputs = {ops::add(ops::scaled_dot_product_attention(q, k, v), x)};
  p.reduce_length = 128;
  p.text = "a block of a transformer";
  check(p, {});
}

TEST(AttentionByGroups, EveryConfigIsRight) {
  const AutoSchedulerOptionsScope scope(as_declared());
  Rng rng(11);
  for (const Form& f : {heads_of(64, 130, 300), heads_of(128, 70, 140, Mask::Causal)}) {
    const selftest::RandomProgram p = attention(f);
    const Template t = make_template(ComputeDag(p.outputs), h200());
    const selftest::Case want(p, 3);
    for (int i = 0; i < 8; ++i) {
      const Config c = selftest::random_config(t, rng);
      SCOPED_TRACE(p.text + " " + t.config_to_json(c).dump());
      const std::vector<NDArray> arrays = want.fresh_arrays();
      selftest::emulated(static_cast<uint64_t>(i))(t.instantiate(c), p.args(), arrays);
      EXPECT_EQ(want.difference(arrays), "");
    }
  }
}

// The next tile's products, and those of the tile before with its weights, are under way while the
// powers of a tile are computed.
TEST(AttentionByGroups, ProductsOverlapWithPowers) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const selftest::RandomProgram p = attention(heads_of(64, 64, 256));
  const std::string all = to_string(lower_gpu(by_groups(p, {}), p.args()));
  const std::string text = all.substr(all.find("for t in 0..3 {", all.find("arrived")));
  const std::vector<std::string> order{".products[0], ", ".weighted[0], ", "wgmma.wait 1",
                                       "= exp2(",        "wgmma.wait 0",   "barrier.arrive"};
  size_t at = 0;
  for (const std::string& what : order) {
    const size_t next = text.find(what, at);
    ASSERT_NE(next, std::string::npos) << what;
    at = next;
  }
}

TEST(AttentionByGroups, TheEmulatorFindsWhatIsDoneTooEarly) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const selftest::RandomProgram p = attention(heads_of(64, 64, 256));
  const Schedule s = by_groups(p, {});
  const auto said = [&](const Change& change) { return complaint_about(p, s, change); };
  // The wait for a product, by the name of its accumulators.
  const auto not_waiting_for_product = [](const std::string& suffix) {
    return [=](const Stmt& x) {
      const TileOp* op = x.as<TileOp>();
      const bool drop =
          op && op->as<tile::GroupWait>() && op->operands[0].buffer->name.ends_with(suffix);
      return drop ? Stmt() : x;
    };
  };
  EXPECT_EQ(said([](const Stmt& x) { return x; }), "");
  EXPECT_THAT(said(not_waiting_for_product(".products")), HasSubstr("no wait for it came before"));
  EXPECT_THAT(said(not_waiting_for_product(".weighted")), Not(IsEmpty()));
  EXPECT_THAT(said(not_waiting_for("arrived")), Not(IsEmpty()));
  EXPECT_THAT(said(not_waiting_for("full")), HasSubstr("has not arrived"));
  EXPECT_THAT(said(without<tile::BarrierArrive>()), HasSubstr("has no end"));
  EXPECT_THAT(said(without_fences()), HasSubstr("no fence"));
}

TEST(AttentionByGroups, AreTheStaticChoiceOfManyRows) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const auto unit = [](int64_t batch, int64_t rows, int64_t keys, int64_t size = 128) {
    const selftest::RandomProgram p =
        attention({.batch = batch, .rows = rows, .keys = keys, .depth = size, .cols = size});
    const Template t = make_template(ComputeDag(p.outputs), h200());
    return t.default_config().values[static_cast<size_t>(t.knob_index("unit"))];
  };
  EXPECT_EQ(unit(32, 4096, 4096), 1);
  EXPECT_EQ(unit(96, 512, 512), 1);
  EXPECT_EQ(unit(96, 16, 512), 0);
  EXPECT_EQ(unit(96, 512, 512, 96), 1);
  EXPECT_EQ(unit(96, 512, 512, 80), 1);
  EXPECT_EQ(unit(96, 512, 512, 32), 0) << "half of the sums of columns would be zeros";
}

// Rows of 300 scores are no multiple of 16 bytes, and a product alone would gain by padding them.
TEST(AttentionByGroups, NoProductOfAnAttentionIsPadded) {
  AutoSchedulerOptions o = as_declared();
  o.use_alternatives = true;
  const AutoSchedulerOptionsScope scope(o);
  Form f = heads_of(64, 300, 300, Mask::Causal);
  f.batch = 8;
  const selftest::RandomProgram p = attention(f);
  EXPECT_EQ(lower_gpu(create_schedule(p.outputs, h200()), p.args()).main.size(), 1);
}

TEST(AttentionByGroups, CompileWithoutSpills) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const auto& [size, tile] : {std::pair<int64_t, Tile>{64, {2, 128, 4}},
                                   {64, {3, 128, 3}},
                                   {64, {1, 64, 4}},
                                   {64, {1, 128, 2}},
                                   {32, {1, 64, 4}},
                                   {80, {2, 128, 2}},
                                   {96, {2, 128, 3}},
                                   {128, {1, 64, 2}},
                                   {128, {2, 128, 3}},
                                   {256, {2, 64, 2}}}) {
    Form f = heads_of(size, 512, 512, Mask::Causal);
    f.batch = 96;
    const selftest::RandomProgram p = attention(f);
    const cuda::Cubin cubin =
        cuda::compile_cuda(emit_cuda(lower_gpu(by_groups(p, tile), p.args())), "sm_90a");
    ASSERT_EQ(cubin.kernels.size(), 1);
    EXPECT_EQ(cubin.kernels[0].spill_stores, 0) << p.text;
    EXPECT_TRUE(cubin.warnings.empty()) << cubin.log;
  }
}

}  // namespace
}  // namespace heddle::testing
