// Products by warp groups (wgmma) from tiles that TMA loads: sizes that divide no tile, operands
// that lie either way, batches, epilogues. What the emulator makes of the kernels is what the
// interpreter makes of the declaration; and it finds what a kernel does too early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/emulator.h"
#include "heddle/dag/alternatives.h"
#include "heddle/ops/ops.h"
#include "meta_templates/changed_kernels.h"
#include "meta_templates/emulated_schedule.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Form {
  DataType type = bf16;
  bool transpose_a = false, transpose_b = false;
  DataType other = type;  ///< of B
};

selftest::RandomProgram product(const Form& f, int64_t m, int64_t n, int64_t k, int64_t batch = 0) {
  selftest::RandomProgram p;
  const auto shape = [&](bool turned, int64_t x, int64_t y) {
    Shape s;
    if (batch > 0) s.push_back(Expr(batch));
    s.push_back(Expr(turned ? y : x));
    s.push_back(Expr(turned ? x : y));
    return s;
  };
  p.inputs = {placeholder(shape(f.transpose_a, m, k), f.type, "A"),
              placeholder(shape(f.transpose_b, k, n), f.other, "B")};
  p.outputs = {ops::matmul(p.inputs[0], p.inputs[1], f.transpose_a, f.transpose_b)};
  p.text = to_string(f.type) + (f.transpose_a ? " T" : " N") + (f.transpose_b ? "T " : "N ") +
           std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  return p;
}

// Emulated, it is right; returns the kernels.
std::string check(const selftest::RandomProgram& p, const Knobs& knobs) {
  return check_emulated(p, schedule(p, knobs));
}

TEST(WarpGroups, EveryFormOfSizesThatDoNotDivide) {
  for (const DataType type : {bf16, f16}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        EXPECT_THAT(check(product({type, ta, tb}, 72, 88, 136), {}), HasSubstr("wgmma.m64n64k16"));
      }
    }
  }
}

TEST(WarpGroups, EveryTile) {
  EXPECT_THAT(check(product({}, 200, 136, 200), {2, 2, 128, 2}), HasSubstr("wgmma.m64n128k16"));
  check(product({bf16, true, false}, 136, 264, 72), {1, 2, 256, 4});
  check(product({f16, false, true}, 328, 104, 72), {2, 1, 96, 3});
}

// Bytes, and f32 as tf32: operands lie along the depth, of which a step of the loop takes 128
// bytes.
TEST(WarpGroups, BytesAndTf32) {
  for (const auto& [a, b] : {std::pair{i8, i8}, {u8, u8}, {i8, u8}, {u8, i8}}) {
    EXPECT_THAT(check(product({a, false, true, b}, 72, 88, 272), {}), HasSubstr("wgmma.m64n64k32"));
  }
  const Form tf32{f32, false, true};
  EXPECT_THAT(check(product(tf32, 72, 88, 68), {}), HasSubstr("wgmma.m64n64k8"));
  check(product(tf32, 200, 136, 100), {2, 2, 96, 2});
  check(product({u8, false, true, i8}, 200, 168, 400), {2, 1, 160, 2});
  check(product({i8, false, true}, 40, 72, 144, 3), {});
}

// 8-bit floats of both formats, also mixed, are added up in f32.
TEST(WarpGroups, EightBitFloats) {
  for (const auto& [a, b] :
       {std::pair{f8e4m3, f8e4m3}, {f8e5m2, f8e5m2}, {f8e4m3, f8e5m2}, {f8e5m2, f8e4m3}}) {
    EXPECT_THAT(check(product({a, false, true, b}, 72, 88, 272), {}), HasSubstr("wgmma.m64n64k32"));
  }
  check(product({f8e4m3, false, true}, 200, 168, 400), {2, 1, 96, 2});
  check(product({f8e4m3, false, true}, 40, 72, 144, 3), {});
}

// wgmma cuts terms 13 bits below the largest one. In a sum of 2048 positive terms that would be
// 3 % of it. Parts of 128 terms lose less than 1 %.
TEST(WarpGroups, LongSumsOfEightBitFloatsAreAddedUpInParts) {
  constexpr int64_t kRows = 64, kCols = 64, kDepth = 2048;
  selftest::RandomProgram p = product({f8e4m3, false, true}, kRows, kCols, kDepth);
  p.outputs = {ops::matmul(p.inputs[0], p.inputs[1], false, true, {.output = f32})};
  const NDArray a = NDArray::random({kRows, kDepth}, f8e4m3, 1, 0.5, 1),
                b = NDArray::random({kCols, kDepth}, f8e4m3, 2, 0.5, 1),
                c = NDArray::full({kRows, kCols}, f32, 77);
  selftest::emulated(5)(schedule(p, {1, 1, 32, 2}), p.args(), {a, b, c});
  for (int64_t i = 0; i < kRows; i += 7) {
    for (int64_t j = 0; j < kCols; ++j) {
      double want = 0;
      for (int64_t k = 0; k < kDepth; ++k) want += a.get(i * kDepth + k) * b.get(j * kDepth + k);
      ASSERT_NEAR(c.get(i * kCols + j), want, want / 64) << i << ", " << j;
    }
  }
}

// A wgmma of bytes or tf32 has no form for operands that lie across the depth.
TEST(WarpGroups, OtherTypesAcrossTheDepthStayWithMmaSync) {
  const AutoSchedulerOptionsScope scope(options());
  for (const DataType type : {i8, f8e4m3, f32}) {
    for (const auto& [ta, tb] : {std::pair{false, false}, {true, true}, {true, false}}) {
      const selftest::RandomProgram p = product({type, ta, tb}, 512, 512, 512);
      const Template t = make_template(ComputeDag(p.outputs), h200());
      EXPECT_EQ(t.knob_index("unit"), -1) << p.text;
    }
  }
}

// TMA copies what is in memory. A conversion of an operand is computed where it is read.
TEST(WarpGroups, OperandsThatAreComputedWhereTheyAreReadStayWithMmaSync) {
  const AutoSchedulerOptionsScope scope(options());
  for (const bool transposes : {false, true}) {
    const Tensor x =
        transposes ? placeholder({136, 72}, f16, "X") : placeholder({72, 136}, f32, "X");
    selftest::RandomProgram p;
    p.inputs = {x, placeholder({136, 88}, f16, "B")};
    p.outputs = {
        ops::matmul(transposes ? ops::transpose(x, {1, 0}) : ops::cast(x, f16), p.inputs[1])};
    p.text = transposes ? "a transposition" : "a conversion";
    const Template t = make_template(ComputeDag(p.outputs), h200());
    EXPECT_EQ(t.knob_index("unit"), -1) << p.text;
    const selftest::Case want(p, 3);
    const std::vector<NDArray> arrays = want.fresh_arrays();
    selftest::emulated(5)(t.static_schedule(), p.args(), arrays);
    EXPECT_EQ(want.difference(arrays), "") << p.text;
  }
}

TEST(WarpGroups, AnOperandWithWorkOfItsOwnIsComputedBefore) {
  selftest::RandomProgram p = product({f16}, 72, 88, 136);
  const Tensor wide = ops::gelu(p.inputs[0]);
  p.outputs = {ops::matmul(wide, p.inputs[1])};
  p.text = "gelu before";
  EXPECT_THAT(check(p, {}), HasSubstr("wgmma.m64n64k16"));
}

TEST(WarpGroups, ATileThatIsMostlyBeyondTheEndIsRefused) {
  EXPECT_THROW(schedule(product({}, 72, 8, 168), {1, 1, 128, 2}), Error);
  EXPECT_THROW(schedule(product({bf16, true, false}, 24, 72, 136), {2, 1, 64, 2}), Error);
  check(product({}, 72, 136, 168), {2, 1, 128, 2});
}

// Three of the four warps of a group would have no rows.
TEST(WarpGroups, ProductsOfTheRowsOfOneWarpStayWithMmaSync) {
  const auto offered = [](int64_t rows) {
    const selftest::RandomProgram p = product({bf16, false, true}, rows, 136, 104);
    return make_template(ComputeDag(p.outputs), h200()).knob_index("unit") >= 0;
  };
  EXPECT_FALSE(offered(15));
  EXPECT_FALSE(offered(16));
  EXPECT_TRUE(offered(17));
}

TEST(WarpGroups, OuterProductsAreNone) {
  const AutoSchedulerOptionsScope scope(options());
  for (const int64_t depth : {1, 2, 7}) {
    const selftest::RandomProgram p = product({bf16, true, false}, 4096, 4096, depth);
    const Schedule s = create_schedule(p.outputs, h200(), options());
    EXPECT_THAT(to_string(lower_gpu(s, p.args())), Not(HasSubstr("wgmma"))) << depth;
  }
}

TEST(WarpGroups, BatchesAndEpilogues) {
  check(product({}, 40, 72, 72, 3), {});
  selftest::RandomProgram p = product({}, 72, 72, 80);
  const Tensor bias = placeholder({72}, bf16, "bias"), residual = placeholder({72, 72}, bf16, "r");
  p.inputs.push_back(bias);
  p.inputs.push_back(residual);
  p.outputs = {ops::relu(ops::add(ops::add(p.outputs[0], bias), residual))};
  p.text = "bias and residual";
  check(p, {});
}

// More tiles than SMs: each block takes several in turn, and its ring goes on from one to the next.
TEST(WarpGroups, PersistentBlocks) {
  Target few = h200();
  few.gpu.sms = 3;
  const selftest::RandomProgram p = product({}, 256, 200, 200);
  const Schedule s = schedule(p, {1, 1, 64, 3, 2}, few);
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  const GpuProgram lowered = lower_gpu(s, p.args());
  EXPECT_EQ(lowered.main[0].grid[0], 3);
  emulate(lowered, arrays, {.seed = 7});
  EXPECT_EQ(want.difference(arrays), "");
}

// A sum whose depth is a tile or less. The blocks load the next tile while they store this one.
TEST(WarpGroups, DepthsOfOneTile) {
  Target few = h200();
  few.gpu.sms = 3;
  for (const int64_t depth : {8, 16, 40, 64}) {
    for (const int64_t store : {0, 1}) {
      const selftest::RandomProgram p = product({}, 328, 136, depth);
      const std::string text = check_emulated(p, schedule(p, {1, 1, 64, 3, 1, 0, -1, store}, few));
      EXPECT_THAT(text, AllOf(HasSubstr("grid 3 x 1"), HasSubstr("wgmma.m64n64k16")));
    }
    check(product({f16, true, false}, 136, 72, depth, 2), {1, 1, 64, 2});
    check(product({bf16, false, true}, 136, 72, depth), {1, 1, 64, 2});
  }
}

// A 1x1 convolution whose filters have their taps last is computed as a product of matrices.
TEST(WarpGroups, FiltersWhoseTapsComeLast) {
  constexpr int64_t kChannels = 64, kFilters = 128;
  const Tensor x = placeholder({2, 40, 52, kChannels}, f16, "x"),
               w = constant_placeholder({kFilters, kChannels, 1, 1}, f16, "w"),
               bias = constant_placeholder({kFilters}, f16, "bias");
  const Axis c = reduce_axis(kChannels), r = reduce_axis(1), q = reduce_axis(1);
  const Tensor sums = compute({2, 40, 52, kFilters}, [&](Axis n, Axis i, Axis j, Axis k) {
    return sum(cast(f32, x(n, i + r, j + q, c)) * cast(f32, w(k, c, r, q)), {c, r, q});
  });
  const Tensor y = compute({2, 40, 52, kFilters}, [&](Axis n, Axis i, Axis j, Axis k) {
    return max(cast(f16, sums(n, i, j, k)) + bias(k), Expr(0.0));
  });
  selftest::RandomProgram p;
  p.inputs = {x, w, bias};
  p.outputs = {y};
  p.text = "filters whose taps come last";
  AutoSchedulerOptions o = options();
  o.use_alternatives = true;
  const AutoSchedulerOptionsScope scope(o);
  const Schedule s = create_schedule(p.outputs, h200(), o);
  EXPECT_THAT(check_emulated(p, s), AllOf(HasSubstr("wgmma"), HasSubstr("bulk_store")));
}

// The partner of the last block has no rows of its own.
TEST(WarpGroups, PairsOfAnOddNumberOfBlocks) {
  for (const int64_t store : {0, 1}) {
    check(product({}, 168, 136, 136), {1, 1, 64, 3, 2, 1, -1, store});
    check(product({f16, false, true}, 296, 72, 72), {1, 2, 64, 2, 2, 1, -1, store});
    check(product({f16, true, false}, 168, 72, 136, 3), {1, 1, 64, 2, 2, 1, -1, store});
  }
}

// Two blocks with the same columns load them together.
TEST(WarpGroups, PairsOfBlocks) {
  for (const bool turned : {false, true}) {
    const std::string text =
        check(product({bf16, false, turned}, 240, 136, 136), {1, 2, 64, 3, 2, 1});
    EXPECT_THAT(text, HasSubstr("in pairs"));
  }
  check(product({f16, true, false}, 128, 64, 72, 2), {1, 1, 64, 2, 2, 1});
}

TEST(WarpGroups, AreChosenForLargeProductsThatTmaTakes) {
  const auto text = [](const selftest::RandomProgram& p) {
    const AutoSchedulerOptionsScope scope(options());
    return to_string(lower_gpu(create_schedule(p.outputs, h200()), p.args()));
  };
  EXPECT_THAT(text(product({}, 4096, 4096, 4096)), HasSubstr("wgmma."));
  EXPECT_THAT(text(product({f16, true, true}, 8192, 8192, 8192)), HasSubstr("wgmma."));
  EXPECT_THAT(text(product({i8, false, true}, 4096, 4096, 4096)), HasSubstr("wgmma."));
  EXPECT_THAT(text(product({f32, false, true}, 4096, 4096, 4096)), HasSubstr("wgmma."));
  // Rows of 1031 elements are no multiple of 16 bytes.
  EXPECT_THAT(text(product({}, 4096, 4096, 1031)), Not(HasSubstr("wgmma.")));
  EXPECT_THAT(text(product({}, 16, 64, 4096)), Not(HasSubstr("wgmma.")));
}

// By wgmma from copies of operands, each by a kernel of its own, as the rewrite makes them.
void check_copies(const selftest::RandomProgram& p, const std::string& rewrite, size_t copies) {
  SCOPED_TRACE(p.text + " " + rewrite);
  const Template t = make_template(apply_alternative(ComputeDag(p.outputs), rewrite), h200());
  Config c = t.default_config();
  for (size_t k = 0; k < c.values.size(); ++k) {
    if (t.knobs()[k].name == "unit") c.values[k] = 1;
    if (t.knobs()[k].name.ends_with(".location")) c.values[k] = 0;
  }
  const Schedule s = t.instantiate(c);
  const selftest::Case want(p, 3, s.options().allow_tf32);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
  const GpuProgram lowered = lower_gpu(s, p.args());
  EXPECT_THAT(to_string(lowered), HasSubstr("wgmma."));
  size_t kernels = 0;  // copies that do not depend on each other share a launch
  for (const GpuKernel& k : lowered.main) kernels += std::max<size_t>(1, k.parts.size());
  EXPECT_EQ(kernels, copies + 1);
}

// Rows that are no multiple of 16 bytes: TMA loads padded copies, and only the results that were
// asked for are stored.
TEST(WarpGroups, OddRowsAreCopiedToPaddedOnes) {
  const AutoSchedulerOptionsScope scope(options());
  for (const bool turned : {false, true})
    check_copies(product({bf16, false, turned}, 74, 107, 139), "pad_product(to=8)@2", 2);
}

// Bytes, 8-bit floats and tf32 lie along the depth for wgmma: other operands are transposed first.
TEST(WarpGroups, OperandsAcrossTheDepthAreTurned) {
  const AutoSchedulerOptionsScope scope(options());
  const std::string rewrite = "depth_innermost@2";
  for (const auto& [a, b] : {std::pair{i8, u8}, {f8e4m3, f8e5m2}, {f32, f32}}) {
    check_copies(product({a, false, false, b}, 72, 88, 160), rewrite, 1);  // rows of A stay
    check_copies(product({a, true, true, b}, 72, 88, 160), rewrite, 1);
    check_copies(product({a, true, false, b}, 72, 88, 160), rewrite, 2);
  }
  // No size is a multiple of 16 bytes.
  check_copies(product({i8, false, false}, 74, 107, 139), rewrite, 2);
  check_copies(product({f8e4m3, true, false}, 61, 75, 141, 2), rewrite, 2);
  check_copies(product({f32, true, true}, 75, 67, 93), rewrite, 2);
}

TEST(WarpGroups, OperandsAreTurnedWhereThatPays) {
  AutoSchedulerOptions with = options();
  with.use_alternatives = true;
  const AutoSchedulerOptionsScope scope(with);
  const auto turned = [](const Form& f, int64_t size) {
    const selftest::RandomProgram p = product(f, size, size, size);
    const std::string text = to_string(lower_gpu(create_schedule(p.outputs, h200()), p.args()));
    const bool copied = text.find("_turned_") != std::string::npos;
    if (copied) {
      EXPECT_THAT(text, HasSubstr("wgmma.")) << p.text;
    }
    return copied;
  };
  EXPECT_TRUE(turned({i8}, 4096));
  EXPECT_TRUE(turned({f8e4m3, true, false}, 8192));
  EXPECT_FALSE(turned({bf16}, 4096));
  EXPECT_FALSE(turned({i8, false, true}, 4096));
  EXPECT_FALSE(turned({i8}, 512)) << "a copy takes longer than it saves";
}

TEST(WarpGroups, RowsArePaddedOnlyWhereTmaCannotLoadThem) {
  AutoSchedulerOptions with = options();
  with.use_alternatives = true;
  const AutoSchedulerOptionsScope scope(with);
  const auto text = [](const selftest::RandomProgram& p) {
    return to_string(lower_gpu(create_schedule(p.outputs, h200()), p.args()));
  };
  EXPECT_THAT(text(product({}, 4099, 4099, 1031)),
              AllOf(HasSubstr("wgmma."), HasSubstr("matmul_padded")));
  EXPECT_THAT(text(product({}, 1240, 1400, 2072)), Not(HasSubstr("matmul_padded")));
}

TEST(WarpGroups, CompileWithoutWarnings) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const auto& [form, knobs] : {std::pair<Form, Knobs>{{bf16, false, false}, {1, 2, 256, 4}},
                                    {{f16, true, true}, {2, 2, 128, 3}},
                                    {{bf16, true, false}, {1, 1, 128, 4}},
                                    {{f32, false, true}, {1, 2, 160, 4}},
                                    {{i8, false, true}, {1, 2, 256, 4}},
                                    {{u8, false, true, i8}, {2, 1, 96, 3}},
                                    {{f8e4m3, false, true}, {1, 2, 192, 4}},
                                    {{f8e5m2, false, true, f8e4m3}, {2, 1, 96, 3}},
                                    {{bf16, false, false}, {1, 2, 256, 4, 2, 1}},
                                    {{f16, false, true}, {1, 1, 128, 4, 2, 1}},
                                    {{f16, false, true}, {1, 2, 200, 4, 1, 0, -1, 3}},
                                    {{f16, false, true}, {1, 3, 176, 3, 1, 0, -1, 3}},
                                    {{bf16, false, false}, {1, 3, 192, 3, 1, 0, -1, 1, 0, 0, 1}},
                                    {{bf16, false, true}, {2, 1, 184, 3, 1, 0, -1, 3}},
                                    {{f16, false, false}, {1, 2, 200, 4, 1, 0, -1, 1, 0, 0, 1}},
                                    {{bf16, false, true}, {2, 2, 136, 3, 1, 0, -1, 1, 0, 0, 1}}}) {
    const selftest::RandomProgram p = product(form, 512, 512, 512);
    const cuda::Cubin cubin =
        cuda::compile_cuda(emit_cuda(lower_gpu(schedule(p, knobs), p.args())), "sm_90a");
    EXPECT_THAT(cubin.warnings, IsEmpty()) << cubin.log;
    for (const cuda::KernelResources& use : cubin.kernels) EXPECT_EQ(use.spill_stores, 0);
  }
}

// ---- what the emulator finds ----

// What the emulator says of a right kernel whose statements are changed.
std::string complaint(const Change& change) {
  const selftest::RandomProgram p = product({}, 64, 128, 320);
  return complaint_about(p, schedule(p, {1, 1, 64, 2, 1}), change);
}

TEST(WarpGroups, TheEmulatorFindsWhatIsDoneTooEarly) {
  EXPECT_EQ(complaint([](const Stmt& s) { return s; }), "");
  EXPECT_THAT(complaint(not_waiting_for("full")), HasSubstr("has not arrived"));
  EXPECT_THAT(complaint(not_waiting_for("empty")), HasSubstr("more arrivals"));
  EXPECT_THAT(complaint(without<tile::GroupWait>()), HasSubstr("not released"));
  EXPECT_THAT(complaint(without<tile::BarrierArrive>()), HasSubstr("has no end"));
  EXPECT_THAT(complaint(without<tile::BarrierExpect>()), HasSubstr("more bytes arrive"));
  EXPECT_THAT(complaint(without<tile::BarrierInit>()), HasSubstr("before it is initialised"));
}

TEST(WarpGroups, TheEmulatorFindsAccumulatorsThatAreReadTooEarly) {
  // The last wait leaves a product in flight.
  const auto weaker = [](const Stmt& s) {
    const auto* wait = tile_operation<tile::GroupWait>(s);
    if (!wait || wait->pending > 0) return s;
    return make_tile_op(tile::GroupWait{1, wait->registers}, s.as<TileOp>()->operands);
  };
  EXPECT_THAT(complaint(weaker), HasSubstr("no wait for it came before"));
}

// Three groups of two tiles have 384 rows, and TMA loads boxes of 256.
TEST(WarpGroups, TilesHaveNoMoreRowsThanABox) {
  const AutoSchedulerOptionsScope scope(options());
  for (const int64_t n : {16, 48, 128}) {
    const selftest::RandomProgram p = product({.type = f16, .transpose_b = true}, 40000, n, 16);
    const Template t = make_template(ComputeDag(p.outputs), h200());
    Config c = t.default_config();
    const int groups = t.knob_index("groups"), tiles = t.knob_index("group_tiles");
    if (groups < 0 || tiles < 0) continue;
    lower_gpu(t.instantiate(c), p.args());
    c.values[static_cast<size_t>(t.knob_index("unit"))] = 1;
    c.values[static_cast<size_t>(groups)] = 3;
    c.values[static_cast<size_t>(tiles)] = 2;
    EXPECT_NE(t.why_invalid(c), "") << n;
  }
}

TEST(WarpGroups, TheEmulatorFindsMissingFencesAndBytes) {
  EXPECT_THAT(complaint(without_fences()), HasSubstr("no fence"));
  const auto expects_more = [](const Stmt& s) {
    const auto* expect = tile_operation<tile::BarrierExpect>(s);
    if (!expect) return s;
    return make_tile_op(tile::BarrierExpect{expect->bytes + 16}, s.as<TileOp>()->operands);
  };
  EXPECT_THAT(complaint(expects_more), HasSubstr("has no end"));
}

}  // namespace
}  // namespace heddle::testing
