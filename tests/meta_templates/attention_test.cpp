// Attention on matrix units: heads of any size, numbers of rows and keys that are no multiple of a
// tile, masks, grouped heads, operands of any layout. The emulator's results of the kernel equal
// the interpreter's results of the declaration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "heddle/dag/attention.h"
#include "meta_templates/attention_forms.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

// Runs the static choice, and checks that it is one kernel.
std::string check(const Form& f) {
  const selftest::RandomProgram p = attention(f);
  SCOPED_TRACE(p.text);
  const Schedule s = create_schedule(p.outputs, h200());
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
  const GpuProgram program = lower_gpu(s, p.args());
  EXPECT_EQ(program.main.size(), 1);
  EXPECT_TRUE(program.workspace.empty());
  const std::string text = to_string(program);
  EXPECT_THAT(text, HasSubstr("mma."));
  return text;
}

TEST(FusedAttention, HeadsRowsAndKeysOfAnyNumber) {
  const AutoSchedulerOptionsScope scope(as_declared());
  check({});
  check({.type = bf16});
  check({.rows = 64, .keys = 128, .depth = 64, .cols = 64});
  check({.rows = 17, .keys = 131, .depth = 40, .cols = 24});
  check({.type = bf16, .rows = 5, .keys = 7, .depth = 9, .cols = 5});
  check({.batch = 1, .rows = 33, .keys = 70, .depth = 128, .cols = 128});
  check({.batch = 1, .rows = 20, .keys = 40, .depth = 256, .cols = 256});
}

TEST(FusedAttention, MasksAndScales) {
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const Mask m : {Mask::Causal, Mask::Added, Mask::Bool}) {
    check({.rows = 70, .keys = 70, .mask = m});
    check({.type = bf16, .rows = 30, .keys = 150, .mask = m, .scale = 0.3});
  }
}

// The mask leaves so few keys that it says which lanes read products.
TEST(FusedAttention, FewKeysOfManyInGroups) {
  const AutoSchedulerOptionsScope scope(as_declared());
  check({.batch = 1, .groups = 8, .rows = 1, .keys = 7, .mask = Mask::CausalFromFirst});
  check({.batch = 1, .groups = 8, .rows = 7, .keys = 64, .mask = Mask::CausalFromFirst});
  check({.groups = 3, .rows = 2, .keys = 20, .mask = Mask::CausalFromFirst});
}

TEST(FusedAttention, OperandsOfOtherLayouts) {
  const AutoSchedulerOptionsScope scope(as_declared());
  check({.interleaved = true});
  check({.keys_turned = true});
  check({.keys = 57, .keys_turned = true});
  check({.groups = 3});
  check({.groups = 4, .rows = 1});
  check({.rows = 1, .keys = 200});
  check({.divided_before = true});
}

// The lowest number masks the first keys, and -inf those behind a row. A row whose own keys are all among the first has
// equal weights for them, and none for those behind it.
TEST(FusedAttention, TheLowestNumberIsNotInfinity) {
  const AutoSchedulerOptionsScope scope(as_declared());
  constexpr int64_t kRows = 40, kDepth = 16, kFirst = 8;
  selftest::RandomProgram p;
  for (const char* name : {"q", "k", "v"})
    p.inputs.push_back(placeholder({2, kRows, kDepth}, f16, name));
  const Tensor products =
      ops::matmul(p.inputs[0], p.inputs[1], false, true, {.accumulate = f32, .output = f32});
  const Expr none = make_float(f32, 0), low = make_float(f32, -3.3e38),
             infinite = make_float(f32, -std::numeric_limits<double>::infinity());
  const Tensor scores = compute(products.shape(), [&](const std::vector<Axis>& i) -> Expr {
    return products(i) * Expr(0.25f) + select(i[2] >= Expr(kFirst), none, low) +
           select(i[2] <= i[1], none, infinite);
  });
  const Tensor weights = ops::softmax(scores);
  const Tensor narrow =
      compute(weights.shape(), [&](const std::vector<Axis>& i) { return cast(f16, weights(i)); });
  p.outputs = {ops::matmul(narrow, p.inputs[2], false, false, {.accumulate = f32, .output = f32})};
  p.reduce_length = kDepth + kRows;
  const Schedule s = create_schedule(p.outputs, h200());
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
  EXPECT_EQ(lower_gpu(s, p.args()).main.size(), 1);
}

// Projections before it and a residual behind it are kernels of their own.
TEST(FusedAttention, InTheMiddleOfANetwork) {
  const AutoSchedulerOptionsScope scope(as_declared());
  selftest::RandomProgram p;
  const auto input = [&](const Shape& shape, const char* name) {
    p.inputs.push_back(placeholder(shape, f16, name));
    return p.inputs.back();
  };
  const Tensor x = input({2, 24, 32}, "x");
  const Tensor q = ops::relu(ops::matmul(x, input({32, 16}, "wq"))),
               k = ops::relu(input({2, 24, 16}, "k")), v = ops::matmul(x, input({32, 32}, "wv"));
  p.outputs = {ops::add(ops::scaled_dot_product_attention(q, k, v), x)};
  p.reduce_length = 64;
  p.text = "a block of a transformer";
  const Schedule s = create_schedule(p.outputs, h200());
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
}

// Later tiles of keys that no row of a block attends to are left out.
TEST(FusedAttention, CausalMasksLeaveOutTiles) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const auto loops = [](Mask mask) {
    const selftest::RandomProgram p = attention({.rows = 200, .keys = 200, .mask = mask});
    const Template t = make_template(ComputeDag(p.outputs), h200());
    Config c = t.default_config();
    EXPECT_TRUE(set_knob(t, &c, "unit", 0) && set_knob(t, &c, "keys", 64));
    return to_string(lower_gpu(t.instantiate(c), p.args()));
  };
  EXPECT_THAT(loops(Mask::None), HasSubstr("for t in 0..4 {"));
  EXPECT_THAT(loops(Mask::Causal), HasSubstr("for t in 0..(i1.o.o.o + 1) {"));
}

// ---- keys in parts (decoding) ----

// Runs the program with its keys in `parts`, of tiles of `keys`. Returns the kernels.
std::string check_parts(const selftest::RandomProgram& p, int64_t parts, int64_t keys = 16,
                        size_t kernels = 2) {
  SCOPED_TRACE(p.text + " in " + std::to_string(parts) + " parts");
  const Template t = make_template(ComputeDag(p.outputs), h200());
  Config c = t.default_config();
  set_knob(t, &c, "form", 1);
  set_knob(t, &c, "parts", parts);
  set_knob(t, &c, "keys", keys);
  const Schedule s = t.instantiate(c);
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
  const GpuProgram program = lower_gpu(s, p.args());
  EXPECT_EQ(program.main.size(), kernels);
  EXPECT_EQ(program.main[0].grid[1], parts);
  EXPECT_EQ(Schedule::from_json(s.to_json(), s.dag()).to_text(), s.to_text());
  return to_string(program);
}

TEST(AttentionInParts, RowsAndKeysOfAnyNumber) {
  const AutoSchedulerOptionsScope scope(as_declared());
  check_parts(attention({.rows = 1, .keys = 128}), 2);
  check_parts(attention({.type = bf16, .groups = 4, .rows = 1, .keys = 256}), 4, 32);
  check_parts(attention({.groups = 3, .rows = 2, .keys = 131, .depth = 40, .cols = 24}), 3);
  check_parts(attention({.batch = 1, .rows = 20, .keys = 250, .depth = 64, .cols = 64}), 8);
  check_parts(attention({.batch = 1, .groups = 4, .rows = 1, .keys = 130, .cols = 7}), 2, 64);
}

TEST(AttentionInParts, MasksLayoutsAndTheDivisionBefore) {
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const Mask m : {Mask::Causal, Mask::Added, Mask::Bool})
    check_parts(attention({.rows = 3, .keys = 150, .mask = m, .scale = 0.3}), 4);
  // The first rows attend to no key of the last parts.
  check_parts(attention({.rows = 40, .keys = 250, .mask = Mask::Causal}), 8);
  check_parts(attention({.rows = 4, .keys = 129, .interleaved = true}), 3);
  check_parts(attention({.rows = 4, .keys = 136, .keys_turned = true}), 3);
  check_parts(attention({.rows = 4, .keys = 200, .divided_before = true}), 4);
}

TEST(AttentionInParts, AreTheStaticChoiceOfFewRowsAndManyKeys) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const auto chosen = [](int64_t batch, int64_t groups, int64_t rows, int64_t keys,
                         int64_t size = 128) {
    const selftest::RandomProgram p = attention({.batch = batch,
                                                 .groups = groups,
                                                 .rows = rows,
                                                 .keys = keys,
                                                 .depth = size,
                                                 .cols = size});
    const GpuProgram program = lower_gpu(create_schedule(p.outputs, h200()), p.args());
    return program.main.size() == 1 ? 1 : program.main[0].grid[1];
  };
  // 64 key heads for 132 SMs.
  EXPECT_GE(chosen(64, 4, 1, 4096), 4);
  EXPECT_GE(chosen(8, 4, 1, 4096), 16);
  EXPECT_GE(chosen(128, 4, 1, 8192, 64), 8) << "small tiles, and more blocks";
  EXPECT_EQ(chosen(4096, 4, 1, 512), 1) << "there are blocks enough";
  EXPECT_EQ(chosen(8, 1, 512, 512), 1) << "rows are blocks";
  EXPECT_EQ(chosen(8, 1, 1, 64), 1) << "too few keys";
}

TEST(AttentionInParts, AResidualIsAKernelOfItsOwn) {
  const AutoSchedulerOptionsScope scope(as_declared());
  selftest::RandomProgram p = attention({.groups = 4, .rows = 1, .keys = 300});
  p.inputs.push_back(placeholder(p.outputs[0].shape(), f16, "residual"));
  p.outputs = {ops::relu(ops::add(p.outputs[0], p.inputs.back()))};
  p.text += " and a residual";
  check_parts(p, 4, 32, 3);
}

TEST(AttentionInParts, Compile) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const AutoSchedulerOptionsScope scope(as_declared());
  const selftest::RandomProgram p =
      attention({.batch = 64, .groups = 4, .rows = 1, .keys = 4096, .depth = 128, .cols = 128});
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    const cuda::Cubin cubin = cuda::compile_cuda(
        emit_cuda(lower_gpu(create_schedule(p.outputs, h200()), p.args())), arch);
    EXPECT_EQ(cubin.kernels.size(), 2);
    for (const cuda::KernelResources& use : cubin.kernels) EXPECT_EQ(use.spill_stores, 0) << arch;
  }
}

TEST(FusedAttention, EveryConfigIsRight) {
  const AutoSchedulerOptionsScope scope(as_declared());
  Rng rng(7);
  for (const Form& f : {Form{.batch = 1, .groups = 4, .rows = 1, .keys = 260},
                        Form{.rows = 70, .keys = 150, .mask = Mask::Causal},
                        Form{.type = bf16, .rows = 40, .keys = 90, .depth = 48, .cols = 64}}) {
    const selftest::RandomProgram p = attention(f);
    const Template t = make_template(ComputeDag(p.outputs), h200());
    const selftest::Case want(p, 3);
    for (int i = 0; i < 12; ++i) {
      const Config c = selftest::random_config(t, rng);
      SCOPED_TRACE(p.text + " " + t.config_to_json(c).dump());
      const std::vector<NDArray> arrays = want.fresh_arrays();
      selftest::emulated(static_cast<uint64_t>(i))(t.instantiate(c), p.args(), arrays);
      EXPECT_EQ(want.difference(arrays), "");
    }
  }
}

// What only looks like it is left alone: another reduction, f32, scores that others need, too.
// One or two keys, and one row with a mask, are computed as declared.
TEST(FusedAttention, AFewKeysAndRowsAreRight) {
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const int64_t keys : {1, 2, 3, 16}) {
    for (const Mask mask : {Mask::None, Mask::Causal, Mask::Added, Mask::Bool}) {
      for (const int64_t rows : {1, 2, 9}) {
        const selftest::RandomProgram p = attention({.rows = rows, .keys = keys, .mask = mask});
        SCOPED_TRACE(p.text);
        const Schedule s = create_schedule(p.outputs, h200());
        const selftest::Case want(p, 3);
        const std::vector<NDArray> arrays = want.fresh_arrays();
        selftest::emulated(5)(s, p.args(), arrays);
        EXPECT_EQ(want.difference(arrays), "");
      }
    }
  }
}

TEST(FusedAttention, OthersAreNone) {
  const auto found = [](const std::vector<Tensor>& outputs) {
    const ComputeDag dag(outputs);
    for (int s = 0; s < dag.size(); ++s) {
      if (find_attention(dag, s)) return true;
    }
    return false;
  };
  EXPECT_TRUE(found(attention({}).outputs));
  EXPECT_TRUE(found(attention({.mask = Mask::Causal}).outputs));
  EXPECT_FALSE(found(attention({.type = f32}).outputs));
  const Tensor q = placeholder({40, 32}, f16, "q"), k = placeholder({50, 32}, f16, "k"),
               v = placeholder({50, 32}, f16, "v");
  const Tensor scores = ops::matmul(q, k, false, true, {.accumulate = f32, .output = f32});
  const Tensor weights = ops::cast(ops::softmax(scores), f16);
  EXPECT_TRUE(found({ops::matmul(weights, v)}));
  EXPECT_FALSE(found({ops::matmul(weights, v), scores}));
  EXPECT_FALSE(found({ops::matmul(weights, v), weights}));
  EXPECT_FALSE(found({ops::matmul(ops::cast(ops::softmax(scores, 0), f16), v)}));
}

TEST(FusedAttention, CompilesForEveryArchitecture) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    for (const int64_t size : {64, 128}) {
      const selftest::RandomProgram p = attention({.batch = 96,
                                                   .rows = 512,
                                                   .keys = 512,
                                                   .depth = size,
                                                   .cols = size,
                                                   .mask = Mask::Causal});
      const Template t = make_template(ComputeDag(p.outputs), h200());
      Config c = t.default_config();
      c.values[static_cast<size_t>(t.knob_index("unit"))] = 0;
      const std::string text = emit_cuda(lower_gpu(t.instantiate(c), p.args()));
      EXPECT_THAT(text, HasSubstr("cp_async_16"));
      const cuda::Cubin cubin = cuda::compile_cuda(text, arch);
      EXPECT_EQ(cubin.kernels.size(), 1);
      for (const cuda::KernelResources& use : cubin.kernels)
        EXPECT_EQ(use.spill_stores, 0) << p.text << " " << arch;
    }
  }
}

}  // namespace
}  // namespace heddle::testing
