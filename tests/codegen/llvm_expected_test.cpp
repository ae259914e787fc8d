// What stores are expected to become is counted, and a square is transposed in registers with
// prefetches between its stores as without.
#include <gtest/gtest.h>

#include <numeric>

#include "codegen/llvm_util.h"
#include "codegen/why_expected.h"

namespace heddle::testing {
namespace {

constexpr int kLanes = 4;  // the narrowest vector, which each target has
constexpr int kPitch = 24;

// to[column*kLanes + lane] = from[lane*kPitch + column]; with `prefetches`, ahead of each store,
// the place `kPitch*kLanes` further on.
LoweredFunction square(int columns, bool prefetches) {
  const Buffer from = argument("from", f32, int64_t{kPitch} * kLanes),
               to = argument("to", f32, int64_t{columns} * kLanes);
  std::vector<Stmt> stmts;
  for (int c = 0; c < columns; ++c) {
    if (prefetches) stmts.push_back(make_prefetch(from, {Expr(kPitch * kLanes + c)}));
    const Expr at = make_ramp(Expr(c * kLanes), Expr(1), kLanes);
    const Expr column = make_ramp(Expr(c), Expr(kPitch), kLanes);
    stmts.push_back(make_store(to, {at}, make_load(from, {column}), StoreHint::TransposedSquare));
  }
  return {"square", {from, to}, make_block(std::move(stmts))};
}

void expect_transposed(const LoweredFunction& f, int columns) {
  GuardedArray<float> from(size_t{kPitch} * kLanes), to(static_cast<size_t>(columns) * kLanes);
  std::iota(from.data(), from.data() + from.size(), 1.0f);
  const CompiledModule m = compile(f);
  ASSERT_EQ(call(m, from.data(), to.data()), 0);
  for (int c = 0; c < columns; ++c) {
    for (int lane = 0; lane < kLanes; ++lane)
      ASSERT_EQ(to[static_cast<size_t>(c * kLanes + lane)], from[size_t(lane) * kPitch + c]);
  }
}

TEST(LlvmExpected, SquaresAreFoundWithPrefetchesBetweenTheirStores) {
  for (const bool prefetches : {false, true}) {
    const LoweredFunction f = square(2 * kLanes, prefetches);
    const auto expected = expected_instructions({f}, test_target());
    ASSERT_EQ(expected.size(), 1u);
    EXPECT_EQ(expected[0].buffer, "to");
    EXPECT_EQ(expected[0].instruction, "transposed_square");
    EXPECT_EQ(expected[0].stores, 2 * kLanes);
    EXPECT_EQ(expected[0].found, 2 * kLanes);
    expect_transposed(f, 2 * kLanes);
  }
}

TEST(LlvmExpected, ARowOfEachSquareIsPrefetched) {
  CodegenOptions options;
  options.keep_llvm_ir = true;
  const std::string ir = compile(square(kLanes, true), options).llvm_ir;
  size_t calls = 0;
  for (size_t at = ir.find("call void @llvm.prefetch"); at != std::string::npos;
       at = ir.find("call void @llvm.prefetch", at + 1))
    ++calls;
  EXPECT_EQ(calls, static_cast<size_t>(kLanes)) << ir;
}

TEST(LlvmExpected, StoresBeyondTheLastSquareAreNotFound) {
  const LoweredFunction f = square(kLanes + 1, true);
  const auto expected = expected_instructions({f}, test_target());
  ASSERT_EQ(expected.size(), 1u);
  EXPECT_EQ(expected[0].stores, kLanes + 1);
  EXPECT_EQ(expected[0].found, kLanes);
  EXPECT_FALSE(expected[0].missed());
  EXPECT_EQ(codegen::why_not_expected({f}, test_target())[0],
            "there are 1 of " + std::to_string(kLanes) + " stores");
  expect_transposed(f, kLanes + 1);
}

TEST(LlvmExpected, AMissedInstructionIsReported) {
  // Products that are far apart are no groups.
  const Buffer a = argument("a", i16, 64), out = argument("out", i32, kLanes);
  const Expr lanes = make_ramp(Expr(0), Expr(1), kLanes);
  const auto wide = [&](int at) {
    return cast(i32.with_lanes(kLanes), make_load(a, {make_ramp(Expr(at), Expr(3), kLanes)}));
  };
  const LoweredFunction f{
      "apart",
      {a, out},
      make_store(out, {lanes}, make_load(out, {lanes}) + wide(0) * wide(9), StoreHint::DotProduct)};
  const auto expected = expected_instructions({f}, test_target());
  ASSERT_EQ(expected.size(), 1u);
  EXPECT_EQ(expected[0].instruction, "dot_product");
  EXPECT_TRUE(expected[0].missed());
  EXPECT_EQ(codegen::why_not_expected({f}, test_target())[0],
            "groups of lanes do not lie side by side in 'a'");
}

}  // namespace
}  // namespace heddle::testing
