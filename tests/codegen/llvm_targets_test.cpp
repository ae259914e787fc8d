// Code for machines other than this one can be emitted, whatever the operation and the lanes. To
// run all tests as a lesser machine, set HEDDLE_TEST_TARGET.
#include <gtest/gtest.h>

#include "codegen/llvm_util.h"
#include "heddle/support/error.h"

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
  for (int op = 0; op <= static_cast<int>(UnaryOp::IsInf); ++op) {
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
