// Products on the tensor cores: of any size, of every type that they take, each operand lying
// either way. What the emulator makes of the kernels is what the interpreter makes of the
// declaration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "heddle/dag/alternatives.h"
#include "heddle/ops/ops.h"
#include "selftest/pair.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Target h200() { return Target::parse("cuda -gpu=h200"); }

AutoSchedulerOptions options(bool allow_tf32) {
  AutoSchedulerOptions o;
  o.use_records = false;
  o.allow_tf32 = allow_tf32;
  return o;
}

struct Form {
  DataType a, b;
  bool transpose_a = false, transpose_b = false;
};

selftest::RandomProgram product(const Form& f, int64_t m, int64_t n, int64_t k, int64_t batch = 0) {
  selftest::RandomProgram p;
  auto shape = [&](bool turned, int64_t x, int64_t y) {
    Shape s;
    if (batch > 0) s.push_back(Expr(batch));
    s.push_back(Expr(turned ? y : x));
    s.push_back(Expr(turned ? x : y));
    return s;
  };
  p.inputs = {placeholder(shape(f.transpose_a, m, k), f.a, "A"),
              placeholder(shape(f.transpose_b, k, n), f.b, "B")};
  p.outputs = {ops::matmul(p.inputs[0], p.inputs[1], f.transpose_a, f.transpose_b)};
  p.text = to_string(f.a) + (f.transpose_a ? " T" : " N") + (f.transpose_b ? "T " : "N ") +
           std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  return p;
}

std::vector<Form> forms() {
  std::vector<Form> out;
  for (const auto& [a, b] :
       {std::pair{bf16, bf16}, {f16, f16}, {f32, f32}, {i8, i8}, {u8, u8}, {u8, i8}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) out.push_back({a, b, ta, tb});
    }
  }
  return out;
}

// The static choice for `p`, emulated, is right; returns its kernels.
std::string check(const selftest::RandomProgram& p) {
  SCOPED_TRACE(p.text);
  const Schedule s = create_schedule(p.outputs, h200());
  const selftest::Case want(p, 3, s.options().allow_tf32);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
  return to_string(lower_gpu(s, p.args()));
}

// The mma of a form, as the loop IR prints it.
std::string mma_of(const Form& f) {
  return f.a == f32 ? "mma.m16n8k8 " : f.a.bits == 8 ? "mma.m16n8k32 " : "mma.m16n8k16 ";
}

TEST(TensorCores, EveryFormOfSizesThatDoNotDivide) {
  const AutoSchedulerOptionsScope scope(options(true));
  for (const Form& f : forms()) {
    EXPECT_THAT(check(product(f, 37, 43, 51)), HasSubstr(mma_of(f)));
    EXPECT_THAT(check(product(f, 20, 36, 68, 2)), HasSubstr(mma_of(f)));
  }
}

TEST(TensorCores, FewRowsAndDeepReductions) {
  const AutoSchedulerOptionsScope scope(options(true));
  for (const DataType t : {bf16, f32, i8}) {
    const Form f{t, t, false, false};
    EXPECT_THAT(check(product(f, 2, 130, 24)), HasSubstr(mma_of(f)));
    EXPECT_THAT(check(product(f, 15, 9, 1100)), HasSubstr(mma_of(f)));
    EXPECT_THAT(check(product(f, 3, 3, 3)), HasSubstr(mma_of(f)));
  }
}

TEST(TensorCores, RowsAreCopiedBySixteenBytesWhereTheirLengthAllows) {
  AutoSchedulerOptions as_declared = options(false);
  as_declared.use_alternatives = false;
  const AutoSchedulerOptionsScope scope(as_declared);
  auto text = [](int64_t k) {
    const selftest::RandomProgram p = product({bf16, bf16, false, true}, 64, 64, k);
    return emit_cuda(lower_gpu(create_schedule(p.outputs, h200()), p.args()));
  };
  EXPECT_THAT(text(256), HasSubstr("cp_async_16("));
  EXPECT_THAT(text(264), HasSubstr("cp_async_16_or_zero("));
  EXPECT_THAT(text(260), HasSubstr("cp_async_8_or_zero("));
  EXPECT_THAT(text(258), HasSubstr("cp_async_4_or_zero("));
  EXPECT_THAT(text(259), Not(HasSubstr("void cp_async_16")));
}

TEST(TensorCores, F32IsF32UnlessTheUserAllowsTf32) {
  const selftest::RandomProgram p = product({f32, f32}, 64, 64, 64);
  for (const bool allowed : {true, false, true}) {
    const AutoSchedulerOptionsScope scope(options(allowed));
    const std::string text = to_string(lower_gpu(create_schedule(p.outputs, h200()), p.args()));
    EXPECT_EQ(text.find("round_tf32") != std::string::npos, allowed);
    EXPECT_EQ(text.find("mma.") != std::string::npos, allowed);
  }
}

selftest::RandomProgram rounded_product(int64_t m, int64_t n, int64_t k, bool turned) {
  selftest::RandomProgram p;
  p.inputs = {placeholder({m, k}, f32, "A"),
              placeholder(turned ? Shape{Expr(n), Expr(k)} : Shape{Expr(k), Expr(n)}, f32, "B")};
  p.outputs = {compute({m, n}, [&](Axis i, Axis j) {
    const Axis d = reduce_axis(k, "d");
    return sum(
        round_tf32(p.inputs[0](i, d)) * round_tf32(turned ? p.inputs[1](j, d) : p.inputs[1](d, j)),
        {d});
  })};
  p.text = "rounded to tf32";
  return p;
}

// A declaration that rounds needs no option, and no rewrite of it forgets the rounding.
TEST(TensorCores, FactorsThatAreRoundedAreTf32) {
  const AutoSchedulerOptionsScope scope(options(false));
  for (const bool turned : {false, true}) {
    const selftest::RandomProgram p = rounded_product(70, 66, 130, turned);
    EXPECT_THAT(check(p), HasSubstr("mma."));
    const ComputeDag dag(p.outputs);
    for (const Alternative& a : alternatives_of(dag, h200(), alternative_policy(options(false)))) {
      if (!a.legal()) continue;
      SCOPED_TRACE(a.name);
      const ComputeDag other = apply_alternative(dag, a.name);
      bool rounds = false;
      for (int s = 0; s < other.size(); ++s) {
        if (!other.stage(s).is_reduction()) continue;
        visit(other.stage(s).bodies()[0].as<Reduce>()->sources[0], [&](const Expr& e) {
          const Unary* u = e.as<Unary>();
          rounds = rounds || (u && u->op == UnaryOp::RoundTf32);
        });
      }
      EXPECT_TRUE(rounds);
    }
  }
}

// Where a mask lets only the first warp read its sums, indices lack the number of the warp.
TEST(TensorCores, AMaskThatOnlyTheFirstWarpPasses) {
  const AutoSchedulerOptionsScope scope(options(false));
  selftest::RandomProgram p;
  p.inputs = {placeholder({8, 8}, bf16, "A"), placeholder({40, 8}, bf16, "B")};
  const Tensor sums = ops::matmul(p.inputs[0], p.inputs[1], false, true);
  p.outputs = {compute({8, 40}, [&](Axis i, Axis j) {
    return select(Expr(j) <= Expr(i), cast(f32, sums(i, j)), make_const(f32, -1));
  })};
  p.text = "causal mask";
  const Template t = make_template(ComputeDag(p.outputs), h200());
  const selftest::Case want(p, 3);
  int checked = 0;
  for (const int64_t tiles : {1, 2, 4}) {
    for (const int64_t warps : {2, 4, 8}) {
      Config c = t.default_config();
      c.values.at(static_cast<size_t>(t.knob_index("col_tiles"))) = tiles;
      c.values.at(static_cast<size_t>(t.knob_index("col_warps"))) = warps;
      if (!t.why_invalid(c).empty()) continue;
      const std::vector<NDArray> arrays = want.fresh_arrays();
      selftest::emulated(5)(t.instantiate(c), p.args(), arrays);
      EXPECT_EQ(want.difference(arrays), "") << tiles << " tiles, " << warps << " warps";
      ++checked;
    }
  }
  EXPECT_GT(checked, 3);
}

// Both operands are one tensor: what one of them needs is not what the other needs.
TEST(TensorCores, TheProductWithItself) {
  selftest::RandomProgram p;
  p.inputs = {placeholder({40, 24}, bf16, "A")};
  p.outputs = {ops::matmul(p.inputs[0], p.inputs[0], false, true)};
  p.text = "A times A";
  check(p);
}

// The batch is no row: what it multiplies differs from one to the next.
TEST(TensorCores, OneRowABatch) {
  const AutoSchedulerOptionsScope scope(options(false));
  for (const int64_t batch : {4, 16}) {
    EXPECT_THAT(check(product({i8, i8}, 1, 13, 95, batch)), Not(HasSubstr("mma.")));
    EXPECT_THAT(check(product({bf16, bf16}, 1, 16, 64, batch)), Not(HasSubstr("mma.")));
  }
}

// Along neither rows, columns nor depth do elements lie side by side.
TEST(TensorCores, BatchInnermost) {
  selftest::RandomProgram p;
  p.inputs = {placeholder({24, 20, 4}, bf16, "A"), placeholder({24, 36, 4}, bf16, "B")};
  p.outputs = {ops::einsum("kmb,knb->bmn", p.inputs[0], p.inputs[1])};
  p.text = "batch innermost";
  check(p);
}

TEST(TensorCores, CompilesForEveryArchitecture) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const AutoSchedulerOptionsScope scope(options(true));
  const std::vector<std::string> archs{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"};
  size_t next = 0;
  for (const Form& f : forms()) {
    const selftest::RandomProgram p = product(f, 33, 40, 50);
    const std::string text = emit_cuda(lower_gpu(create_schedule(p.outputs, h200()), p.args()));
    // The forms in turn: each architecture sees every type.
    const std::string& arch = archs[next++ % archs.size()];
    for (const cuda::KernelResources& use : cuda::compile_cuda(text, arch).kernels)
      EXPECT_EQ(use.spill_stores, 0) << p.text << " " << arch;
  }
}

}  // namespace
}  // namespace heddle::testing
