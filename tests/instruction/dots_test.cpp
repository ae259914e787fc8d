// Groups of products of a CPU: the nest of each instruction, run by the interpreter, against code in
// which it is recognised. On machines without it the code does the same without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "codegen/llvm_util.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/instruction/instruction.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
void expect_nest(const MachineInstruction& dot, const InstructionForm& f) {
  const int64_t lanes = f.extents[0][0], group = f.extents[1][0];
  const NDArray d = NDArray::random({lanes}, f.types[0], 1),
                a = NDArray::random({lanes, group}, f.types[1], 2),
                b = NDArray::random({lanes, group}, f.types[2], 3);
  const NDArray want = d.copy();
  const InstructionNest nest = nest_of(dot, f, {lanes, group});
  interpret({"nest", nest.operands, nest.body}, {want, a, b});
  const CompiledModule code = compile(vectors(f));
  ASSERT_EQ(call(code, d.data(), a.data(), b.data()), 0);
  for (int64_t l = 0; l < lanes; ++l) {
    const double eps = f.types[0] == i32 ? 0 : 1e-6 * std::max(1.0, std::abs(want.get(l)));
    EXPECT_NEAR(d.get(l), want.get(l), eps) << dot.name << " lane " << l;
  }
}

TEST(Dots, AreTheirNests) {
  for (const MachineInstruction& dot : dot_instructions()) {
    for (const InstructionForm& f : dot.forms) expect_nest(dot, f);
  }
}

// A CPU that has each, and none for the same types that is better.
const char* target_with(const std::string& name) {
  static const std::map<std::string, const char*> all = {
      {"pmaddwd", "skylake-avx512"}, {"vpdpbusd", "cascadelake"},  {"vpdpwssd", "cascadelake"},
      {"vpdpbssd", "sierraforest"},  {"vpdpbuud", "sierraforest"}, {"vdpbf16ps", "cooperlake"},
      {"sdot", "neoverse-v1"},       {"udot", "neoverse-v1"},      {"usdot", "neoverse-v1"}};
  return all.at(name);
}

TEST(Dots, AreCalledOnMachinesThatHaveThem) {
  for (const MachineInstruction& dot : dot_instructions()) {
    const Target target = Target::parse(std::string("llvm -mcpu=") + target_with(dot.name));
    for (const InstructionForm& f : dot.forms) {
      if (!dot.legal(target, f)) continue;
      EXPECT_THAT(emit_llvm({vectors(f)}, target, "ll"), HasSubstr(f.llvm.intrinsic)) << dot.name;
    }
    EXPECT_TRUE(dot.legal(target, dot.forms[0])) << dot.name;
  }
  const Target old = Target::parse("llvm -mcpu=x86-64-v2");
  for (const MachineInstruction& dot : dot_instructions())
    EXPECT_EQ(dot.legal(old, dot.forms[0]), dot.name == "pmaddwd");
}

// A sum that is wider than an instruction of the machine is computed without one.
TEST(Dots, WiderOnesAreExpanded) {
  for (const MachineInstruction& dot : dot_instructions()) {
    for (const char* cpu : {"sandybridge", "alderlake", "cascadelake"}) {
      const Target target = Target::parse(std::string("llvm -mcpu=") + cpu);
      for (const InstructionForm& f : dot.forms) {
        EXPECT_FALSE(emit_llvm({vectors(f)}, target, "s").empty());
        if (dot.legal(target, f)) continue;
        EXPECT_THAT(emit_llvm({vectors(f)}, target, "ll"), Not(HasSubstr(f.llvm.intrinsic)));
      }
    }
  }
}

// LLVM ends the process where it has no code for a call, so a machine without a feature has none of the
// instructions that need it.
TEST(Dots, OfMachinesWithoutAFeatureHaveCode) {
  const auto expect_code = [](const std::string& text) {
    SCOPED_TRACE(text);
    const Target target = Target::parse(text);
    for (const MachineInstruction& dot : dot_instructions()) {
      for (const InstructionForm& f : dot.forms)
        EXPECT_NE(emit_llvm({vectors(f)}, target, "s"), "") << dot.name;
    }
  };
  for (const char* cpu : {"cascadelake", "cooperlake", "sapphirerapids", "znver5"}) {
    for (const char* feature : {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx2", "fma"})
      expect_code(std::string("llvm -mcpu=") + cpu + " -mattr=-" + feature);
  }
  for (const char* feature : {"avx512vnni", "avx512bf16", "avxvnni", "avxvnniint8"})
    expect_code(std::string("llvm -mcpu=x86-64 -mattr=+") + feature);
  EXPECT_FALSE(
      amx_instruction().is_of(Target::parse("llvm -mcpu=sapphirerapids -mattr=-amx-tile")));
}

TEST(Dots, OfBytesByMachine) {
  const auto dots = [](const char* text) {
    const Target t = Target::parse(std::string("llvm ") + text);
    return std::pair(adds_products(t, i32, i8, u8, 4), adds_products(t, i32, i8, i8, 4));
  };
  using Answer = std::pair<bool, bool>;  // of both signs, of one
  EXPECT_EQ(dots("-mcpu=znver3"), Answer(false, false));
  EXPECT_EQ(dots("-mcpu=icelake-server"), Answer(true, false));
  EXPECT_EQ(dots("-mcpu=alderlake"), Answer(true, false));
  EXPECT_EQ(dots("-mcpu=sierraforest"), Answer(true, true));
  EXPECT_EQ(dots("-mcpu=znver3 -mattr=+avxvnni"), Answer(true, false));
  EXPECT_EQ(dots("-mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu"), Answer(false, true));
  EXPECT_EQ(dots("-mcpu=neoverse-v1 -mtriple=aarch64-linux-gnu"), Answer(true, true));
  EXPECT_TRUE(adds_products(Target::parse("llvm -mcpu=cooperlake"), f32, bf16, bf16, 2));
  EXPECT_FALSE(adds_products(Target::parse("llvm -mcpu=icelake-server"), f32, bf16, bf16, 2));
  EXPECT_FALSE(adds_products(Target::parse("cuda"), i32, u8, i8, 4));
}

}  // namespace
}  // namespace heddle::testing
