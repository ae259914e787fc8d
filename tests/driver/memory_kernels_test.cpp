// The shape of kernels that memory bounds: what must not be in their inner loops.
#include <numeric>

#include "driver/driver_testing.h"

namespace heddle::testing {
namespace {

std::string haswell_assembly(const Tensor& t) {
  const Target target = Target::parse("llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -threads=1");
  Template tpl = make_template(ComputeDag({t}), target);
  Schedule s = tpl.instantiate(tpl.default_config());
  return emit_llvm({lower(s, all_args(s.dag())).main}, target, "s");
}

TEST(Transpose, GoesThroughRegisters) {
  const std::string text = haswell_assembly(ops::transpose(placeholder({64, 96})));
  EXPECT_NE(text.find("vunpcklps"), std::string::npos);
  // Lane by lane it would be loads and insertions.
  EXPECT_EQ(text.find("vinsertps"), std::string::npos) << text;
}

TEST(Transpose, OfAnyShapeAndWidthIsRight) {
  for (const DataType t : {f32, i32, f64, i8}) {
    for (const Shape& shape : {Shape{64, 96}, Shape{37, 53}, Shape{3, 40, 24}, Shape{1, 9}}) {
      EXPECT_EQ(wrong_when_run(create_schedule({ops::transpose(placeholder(shape, t))})), "")
          << to_string(t) << ", " << shape.size() << " dimensions";
    }
  }
}

TEST(Transpose, OfAnyMachineIsRight) {
  for (const char* text :
       {"llvm -mcpu=x86-64", "llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"}) {
    const Tensor t = ops::transpose(placeholder({50, 70}));
    EXPECT_EQ(wrong_when_run(create_schedule({t}, Target::parse(text))), "") << text;
  }
}

TEST(Transpose, ByWayOfACopyIsRight) {
  const Tensor t = ops::transpose(placeholder({100, 132}));
  Template tpl = make_template(ComputeDag({t}), Target::host());
  Config config = tpl.default_config();
  for (const char* knob : {"staged", "nontemporal", "along_input"}) {
    ASSERT_GE(tpl.knob_index(knob), 0) << knob;
    config.values[static_cast<size_t>(tpl.knob_index(knob))] = 1;
    EXPECT_EQ(wrong_when_run(tpl.instantiate(config)), "") << knob;
  }
}

TEST(Transpose, LargerThanTheCachesBypassesThemInWholeLines) {
  const std::string text = haswell_assembly(ops::transpose(placeholder({4096, 4096})));
  EXPECT_NE(text.find("vmovntps"), std::string::npos);
  EXPECT_NE(text.find("vunpcklps"), std::string::npos);
  EXPECT_EQ(text.find("vinsertps"), std::string::npos);
  // Rows of the result that are no whole lines cannot; short rows of the input need not.
  for (const Shape& shape : {Shape{4095, 4096}, Shape{65536, 256}})
    EXPECT_EQ(haswell_assembly(ops::transpose(placeholder(shape))).find("vmovntps"),
              std::string::npos);
}

TEST(Packing, OfATransposedOperandGoesThroughRegisters) {
  // q k^T of a few heads: k is packed in tiles of its rows, which it is contiguous across.
  Tensor q = placeholder({3, 64, 48}, f32, "q"), k = placeholder({3, 72, 48}, f32, "k");
  const Tensor t = ops::matmul(q, k, false, true);
  Template tpl = make_template(ComputeDag({t}), Target::parse("llvm -mcpu=haswell -threads=1"));
  Config config = tpl.default_config();
  ASSERT_GE(tpl.knob_index("pack_vectors"), 0);
  config.values[static_cast<size_t>(tpl.knob_index("pack_vectors"))] = 1;
  const Schedule s = tpl.instantiate(config);
  const std::string text =
      emit_llvm({lower(s, all_args(s.dag())).main}, Target::parse("llvm -mcpu=haswell"), "s");
  EXPECT_NE(text.find("vunpcklps"), std::string::npos);
  EXPECT_EQ(text.find("vinsertps"), std::string::npos);
  EXPECT_EQ(wrong_when_run(s), "");
}

TEST(Elementwise, ARowThatEndsWithinAVectorIsNotGathered) {
  for (const int64_t columns : {1000, 1003}) {
    Tensor x = placeholder({40, columns}, f32, "x"), bias = placeholder({columns}, f32, "bias");
    const Tensor t = ops::gelu(ops::add(x, bias));
    const std::string text = haswell_assembly(t);
    EXPECT_EQ(text.find("vgather"), std::string::npos) << columns;
    EXPECT_EQ(text.find("vinsertps"), std::string::npos) << columns;
    EXPECT_EQ(wrong_when_run(create_schedule({t})), "") << columns;
  }
}

TEST(Softmax, TakesTwoVectorsOfExponentialsAtATime) {
  const Tensor t = ops::softmax(placeholder({64, 100}));
  const Template tpl = make_template(ComputeDag({t}), Target::host());
  int widths = 0;
  for (const Knob& knob : tpl.knobs()) {
    if (knob.name.find("width") == std::string::npos) continue;
    ++widths;  // of the exponentials, not of what there is one of in a row
    EXPECT_EQ(knob.default_value, 2 * Target::host().vector_lanes(4));
  }
  EXPECT_EQ(widths, 1);
  EXPECT_EQ(wrong_when_run(create_schedule({t})), "");
}

std::string static_schedule(const Tensor& t) {
  const Target target = Target::parse("llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -threads=1");
  const Template tpl = make_template(ComputeDag({t}), target);
  return tpl.instantiate(tpl.default_config()).to_text();
}

TEST(Softmax, SumsTheExponentialsAsTheyAreComputed) {
  for (const int64_t columns : {16, 100, 1003}) {
    const Tensor t = ops::softmax(placeholder({64, columns}));
    // Rows of two vectors are computed for all rows first.
    EXPECT_EQ(static_schedule(t).find("softmax_exp.store_at(softmax, i.o)") != std::string::npos,
              columns > 16);
    EXPECT_EQ(wrong_when_run(create_schedule({t})), "") << columns;
  }
}

TEST(FullSum, ReadsSeveralRowsAtATime) {
  const Tensor x = placeholder({4096, 4096});
  // Alone, or with something to do with the sum.
  for (const Tensor& t : {ops::sum(x, {0, 1}), ops::mean(x, {0, 1})}) {
    const std::string steps = static_schedule(t);
    EXPECT_NE(steps.find("split(r0.i, 4)"), std::string::npos) << steps;
  }
  for (const Shape& shape : {Shape{1500, 1003}, Shape{37, 3, 40}, Shape{1 << 20}}) {
    std::vector<int> all(shape.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(wrong_when_run(create_schedule({ops::sum(placeholder(shape), all)})), "");
    EXPECT_EQ(wrong_when_run(create_schedule({ops::mean(placeholder(shape), all)})), "");
  }
}

// What there is one of in a row is not computed again with every term.
TEST(LayerNorm, TakesTheMeanOnceARow) {
  const Tensor x = placeholder({64, 100}), scale = placeholder({100}), shift = placeholder({100});
  const auto offers_reader_loops = [](const Tensor& y) {
    const Template t = make_template(ComputeDag({y}), Target::host());
    return std::any_of(t.knobs().begin(), t.knobs().end(), [](const Knob& knob) {
      return knob.name.find("with_reader") != std::string::npos;
    });
  };
  EXPECT_FALSE(offers_reader_loops(ops::layer_norm(x, scale, shift)));
  EXPECT_TRUE(offers_reader_loops(ops::softmax(x)));
}

TEST(LayerNorm, FetchesShortRowsInThePassBetween) {
  auto scheduled = [](int64_t rows, int64_t columns) {
    return static_schedule(ops::layer_norm(placeholder({rows, columns}), placeholder({columns}),
                                           placeholder({columns})));
  };
  const std::string rows_of_4_kib = scheduled(16384, 1024), rows_of_16 = scheduled(4096, 4096);
  EXPECT_NE(rows_of_4_kib.find("layer_norm_variance_sum.rf.prefetch("), std::string::npos);
  EXPECT_EQ(rows_of_4_kib.find("layer_norm.prefetch("), std::string::npos);
  EXPECT_EQ(rows_of_16.find("layer_norm_variance_sum.rf.prefetch("), std::string::npos);
  // Longer ones are read, and their means taken, while the row before is written.
  EXPECT_EQ(rows_of_16.find("layer_norm.prefetch("), std::string::npos);
  EXPECT_NE(rows_of_16.find("layer_norm.software_pipeline("), std::string::npos);
  EXPECT_NE(rows_of_16.find("layer_norm_mean_sum.rf.prefetch("), std::string::npos) << rows_of_16;
  EXPECT_EQ(wrong_when_run(create_schedule({ops::layer_norm(
                placeholder({600, 1003}), placeholder({1003}), placeholder({1003}))})),
            "");
}

TEST(LogSoftmax, FetchesTheNextRowsWhileItComputesExponentials) {
  const std::string large = static_schedule(ops::log_softmax(placeholder({4096, 4096})));
  EXPECT_NE(large.find("log_softmax_sum.rf.prefetch("), std::string::npos) << large;
  const Tensor t = ops::log_softmax(placeholder({70, 1003}));
  EXPECT_EQ(static_schedule(t).find("prefetch("), std::string::npos);  // it is in the caches
  EXPECT_EQ(wrong_when_run(create_schedule({t})), "");
}

}  // namespace
}  // namespace heddle::testing
