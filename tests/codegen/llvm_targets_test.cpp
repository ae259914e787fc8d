// Code for machines other than this one can be emitted, whatever the operation and the lanes. To
// run all tests as a lesser machine, set HEDDLE_TEST_TARGET.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "codegen/code_features.h"
#include "codegen/llvm_util.h"
#include "heddle/support/error.h"
#include "runtime/machine/cpu_features.h"

namespace heddle::testing {
namespace {

constexpr const char* kTargets[] = {
    "llvm -mcpu=x86-64 -mtriple=x86_64-linux-gnu",
    "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu",
    "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu",
    "llvm -mcpu=sapphirerapids -mtriple=x86_64-linux-gnu",
    "llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu",
};

LoweredFunction all_operations(DataType t, int lanes) {
  constexpr int64_t kN = 64;
  Buffer a = argument("a", t, kN), b = argument("b", t, kN), table = argument("table", i32, kN);
  std::vector<Buffer> args{a, b, table};
  std::vector<Stmt> stores;
  const Expr at = make_ramp(Expr(0), Expr(1), lanes);
  const auto store = [&](Expr value) {
    args.push_back(argument("out" + std::to_string(args.size()), value.dtype().element(), kN));
    stores.push_back(make_store(args.back(), {at}, value, StoreHint::NonTemporal));
  };
  const Expr x = make_load(a, {at}), y = make_load(b, {at});
  for (int op = 0; op <= static_cast<int>(UnaryOp::RoundTf32); ++op) {
    const auto unary = static_cast<UnaryOp>(op);
    const bool any_type = unary == UnaryOp::Neg || unary == UnaryOp::Abs;
    if (t.is_float() ? unary != UnaryOp::Not && unary != UnaryOp::BitNot
                     : any_type || unary == UnaryOp::BitNot) {
      store(make_unary(unary, x));
    }
  }
  for (int op = 0; op <= static_cast<int>(BinaryOp::Shr); ++op) {
    const auto binary = static_cast<BinaryOp>(op);
    const bool logical = binary == BinaryOp::And || binary == BinaryOp::Or;
    const bool floats_only = binary == BinaryOp::Pow || binary == BinaryOp::Atan2;
    const bool ints_only =
        binary == BinaryOp::FloorDiv || binary == BinaryOp::FloorMod || binary >= BinaryOp::BitAnd;
    if (!logical && (t.is_float() ? !ints_only : !floats_only)) store(make_binary(binary, x, y));
  }
  store(make_load(a, {cast(i64, make_load(table, {at}))}));
  store(make_select(x < y, make_load(a, {at + make_int(i64.with_lanes(lanes), 7)}), x));
  for (DataType to : {f64, f32, f16, bf16, i8, i32, u64, boolean}) {
    store(cast(to.with_lanes(lanes), x));
  }
  for (int stride : {-1, 2, 3, 5}) {
    store(make_load(a, {make_ramp(Expr(16), Expr(stride), lanes)}));
  }
  stores.push_back(make_prefetch(a, {Expr(3)}));
  return {"everything", args, make_block(stores)};
}

TEST(LlvmTargets, EveryOperationIsEmittedForEveryMachine) {
  for (const char* target : kTargets) {
    for (DataType t : {f64, f32, f16, bf16, i8, i32, i64, u16}) {
      for (int lanes : {1, 5, 8, 16}) {
        EXPECT_GT(emit_llvm({all_operations(t, lanes)}, Target::parse(target), "o").size(), 1000u)
            << target << " " << to_string(t) << " x " << lanes;
      }
    }
  }
}

TEST(LlvmTargets, WideRegistersAreUsedWhereTheyExist) {
  LoweredFunction f = elementwise({f32, f32}, f32, 100, 16, [](const std::vector<Expr>& x) {
    return make_unary(UnaryOp::Exp, x[0]) * x[1];
  });
  const std::string avx512 = emit_llvm({f}, Target::parse(kTargets[2]), "s");
  EXPECT_NE(avx512.find("zmm"), std::string::npos);
  EXPECT_NE(avx512.find("vscalefps"), std::string::npos);
  EXPECT_EQ(emit_llvm({f}, Target::parse(kTargets[0]), "s").find("ymm"), std::string::npos);
}

// The elements beyond the last vector are stored one by one. Only AMD's CPUs store one float past
// the caches (SSE4a), and code for them must run on any CPU with the features of the target.
TEST(LlvmTargets, SingleFloatsAreStoredByInstructionsOfEveryCpu) {
  Buffer in = argument("in", f32, 3), out = argument("out", f32, 3);
  const LoweredFunction f{
      "single",
      {in, out},
      make_store(out, {Expr(1)}, make_load(in, {Expr(1)}), StoreHint::NonTemporal)};
  for (const char* cpu : {"znver1", "znver3", "znver4"}) {
    const std::string text = std::string("llvm -mcpu=") + cpu;
    EXPECT_EQ(
        emit_llvm({f}, Target::parse(text + " -mtriple=x86_64-linux-gnu"), "s").find("movnts"),
        std::string::npos)
        << cpu;
    const Target here = Target::parse(text);
    if (!here.runs_here()) continue;
    const CompiledModule module = compile_llvm({f}, here);
    float from[3] = {1, 2, 3}, to[3] = {};
    void* args[] = {from, to};
    EXPECT_EQ(module.entries[0](args), 0);
    EXPECT_EQ(to[1], 2);
  }
}

// Exported code is checked for what LLVM infers from the name of a CPU, not only for what Heddle
// asks for.
TEST(LlvmTargets, CodeNamesTheFeaturesThatItsCpuImplies) {
  const auto has = [](const char* cpu, const char* feature) {
    const std::string triple = " -mtriple=x86_64-linux-gnu";
    const std::vector<std::string> all =
        codegen::code_features(Target::parse(std::string("llvm -mcpu=") + cpu + triple));
    return std::count(all.begin(), all.end(), feature) == 1;
  };
  EXPECT_TRUE(has("haswell", "bmi2"));
  EXPECT_TRUE(has("haswell", "avx2"));
  EXPECT_FALSE(has("haswell", "gfni"));
  EXPECT_FALSE(has("nehalem", "bmi2"));
  EXPECT_TRUE(has("icelake-server", "gfni"));
  EXPECT_TRUE(has("icelake-server", "avx512vbmi"));
  EXPECT_FALSE(has("znver3", "sse4a"));
  EXPECT_TRUE(has("icelake-server -mattr=-gfni", "avx512vbmi"));
  EXPECT_FALSE(has("icelake-server -mattr=-gfni", "gfni"));
  const std::vector<std::string> unknown{"no-such-feature"};
  EXPECT_EQ(internal::missing_features(unknown), unknown);
}

#if defined(__linux__) && defined(__x86_64__)
TEST(LlvmTargets, ImpliedFeaturesAreThoseThatLinuxReports) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("flags")) {
  }
  if (line.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  line += " ";
  for (const std::string_view name : internal::implied_features()) {
    std::string flag(name);  // Linux has words of its own for some
    if (name == "lzcnt") flag = "abm";
    if (name == "bmi") flag = "bmi1";
    for (const char* underlined : {"vbmi2", "bitalg", "vpopcntdq"}) {
      if (name == std::string("avx512") + underlined) flag = std::string("avx512_") + underlined;
    }
    EXPECT_EQ(internal::missing_features({std::string(name)}).empty(),
              line.find(" " + flag + " ") != std::string::npos)
        << name;
  }
}
#endif

TEST(LlvmTargets, CpusThatLlvmDoesNotKnowAreRefused) {
  Buffer out = argument("out", f32, 1);
  LoweredFunction f{"one", {out}, make_store(out, {Expr(0)}, Expr(1.0f))};
  Target t = Target::parse(kTargets[1]);
  for (const auto& [cpu, says, helps] :
       {std::tuple{"haswel", "LLVM does not know the CPU 'haswel'", "did you mean 'haswell'?"},
        {"neoverse-n1", "LLVM does not know the CPU 'neoverse-n1' of x86_64",
         "another architecture"},
        {"pentium5", "LLVM does not know the CPU 'pentium5'", "known_cpus()"},
        {"", "'' is no name of a CPU", "haswell"},
        {";rm -rf", "';rm -rf' is no name of a CPU", "haswell"}}) {
    t.mcpu = cpu;
    try {
      emit_llvm({f}, t, "o");
      ADD_FAILURE() << cpu;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_NE(e.message.find(says), std::string::npos) << e.message;
      EXPECT_NE(e.help.find(helps), std::string::npos) << e.help;
    }
  }
}

TEST(LlvmTargets, CodeThatCannotRunHereIsNotLoaded) {
  Buffer out = argument("out", f32, 1);
  LoweredFunction f{"one", {out}, make_store(out, {Expr(0)}, Expr(1.0f))};
  for (const char* target : kTargets) {
    const Target t = Target::parse(target);
    if (t.runs_here()) continue;
    try {
      compile_llvm({f}, t);
      ADD_FAILURE() << target;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_NE(e.message.find("does not run on this machine"), std::string::npos) << e.message;
    }
  }
}

}  // namespace
}  // namespace heddle::testing
