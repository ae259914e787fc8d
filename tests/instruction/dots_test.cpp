// Groups of products of a CPU: the nest of each instruction, run by the interpreter, against code in
// which it is recognised. On machines without it the code does the same without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/llvm_util.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/instruction/instruction.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

// d[l] += the products of one group, as lowering leaves them: a sum of vectors over the lanes.
LoweredFunction vectors(const InstructionForm& f) {
  const int64_t lanes = f.extents[0][0], group = f.extents[1][0];
  const Buffer d = argument("d", f.types[0], lanes), a = argument("a", f.types[1], lanes * group),
               b = argument("b", f.types[2], lanes * group);
  const auto n = static_cast<int>(lanes);
  const Expr at = make_ramp(Expr(0), Expr(1), n);
  const DataType wide = f.types[0].with_lanes(n);
  Expr sum = make_load(d, {at});
  for (int64_t j = 0; j < group; ++j) {
    const Expr member = make_ramp(Expr(j), Expr(group), n);
    sum = sum + cast(wide, make_load(a, {member})) * cast(wide, make_load(b, {member}));
  }
  return {"dot", {d, a, b}, make_store(d, {at}, sum)};
}

// Integers are exact, and sums of bf16 are rounded once for each product.
void expect_nest(const DotInstruction& dot, const InstructionForm& f) {
  const int64_t lanes = f.extents[0][0], group = f.extents[1][0];
  const NDArray d = NDArray::random({lanes}, f.types[0], 1),
                a = NDArray::random({lanes, group}, f.types[1], 2),
                b = NDArray::random({lanes, group}, f.types[2], 3);
  const NDArray want = d.copy();
  const InstructionNest nest = nest_of(dot.instruction, f, {lanes, group});
  interpret({"nest", nest.operands, nest.body}, {want, a, b});
  const CompiledModule code = compile(vectors(f));
  ASSERT_EQ(call(code, d.data(), a.data(), b.data()), 0);
  for (int64_t l = 0; l < lanes; ++l) {
    const double eps = f.types[0] == i32 ? 0 : 1e-6 * std::max(1.0, std::abs(want.get(l)));
    EXPECT_NEAR(d.get(l), want.get(l), eps) << dot.instruction.name << " lane " << l;
  }
}

TEST(Dots, AreTheirNests) {
  for (const DotInstruction& dot : dot_instructions()) {
    for (const InstructionForm& f : dot.instruction.forms) expect_nest(dot, f);
  }
}

// A CPU that has each part, and none for the same types that is better.
const char* target_with(DotUnit unit) {
  switch (unit) {
    case DotUnit::Pairs: return "llvm -mcpu=skylake-avx512";
    case DotUnit::Vnni: return "llvm -mcpu=cascadelake";
    case DotUnit::VnniInt8: return "llvm -mcpu=sierraforest";
    case DotUnit::Bf16: return "llvm -mcpu=cooperlake";
    case DotUnit::Dotprod:
    case DotUnit::I8mm: return "llvm -mcpu=neoverse-v1";
  }
  return "";
}

TEST(Dots, AreCalledOnMachinesThatHaveThem) {
  for (const DotInstruction& dot : dot_instructions()) {
    const Target target = Target::parse(target_with(dot.unit));
    for (const InstructionForm& f : dot.instruction.forms) {
      if (!dot.instruction.legal(target, f)) continue;
      EXPECT_THAT(emit_llvm({vectors(f)}, target, "ll"), HasSubstr(f.llvm.intrinsic))
          << dot.instruction.name;
    }
    EXPECT_TRUE(dot.instruction.legal(target, dot.instruction.forms[0])) << dot.instruction.name;
  }
  const Target old = Target::parse("llvm -mcpu=x86-64-v2");
  for (const DotInstruction& dot : dot_instructions())
    EXPECT_EQ(dot.instruction.legal(old, dot.instruction.forms[0]), dot.unit == DotUnit::Pairs);
}

}  // namespace
}  // namespace heddle::testing
