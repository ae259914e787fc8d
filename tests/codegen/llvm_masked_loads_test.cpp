// Vectors of which some lanes may be read, at positions that are not contiguous. Arrays border on
// forbidden pages, so that a read of another lane ends the process.
#include <gtest/gtest.h>

#include "codegen/llvm_util.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::testing {
namespace {

constexpr int kLanes = 16;

Expr all(const Expr& e) { return make_broadcast(e, kLanes); }
Expr lane() { return make_ramp(Expr(0), Expr(1), kLanes); }

/// out[lane] = value, which reads `a` and `b` of `elements` elements and may use n[0], as the
/// interpreter and as machine code have it. Both arrays lie at the end of a page, and at the front of
/// one.
template <class Value>
void expect_value(int64_t elements, int64_t n, Value value) {
  const Buffer size = argument("n", i64, 1), a = argument("a", f32, elements),
               b = argument("b", f32, elements), out = argument("out", f32, kLanes);
  const Stmt body = make_store(out, {lane()}, value(make_load(size, {Expr(0)}), a, b));
  const LoweredFunction f{"masked", {size, a, b, out}, body};
  const CompiledModule compiled = compile(f);
  for (const bool at_front : {false, true}) {
    GuardedArray<float> first(static_cast<size_t>(elements), at_front),
        second(static_cast<size_t>(elements), at_front);
    for (size_t i = 0; i < first.size(); ++i) {
      first[i] = static_cast<float>(i + 1);
      second[i] = static_cast<float>(i % 3) - 1;
    }
    const NDArray want = NDArray::zeros({kLanes}, f32);
    interpret(f, {NDArray::wrap(&n, {1}, i64), NDArray::wrap(first.data(), {elements}, f32),
                  NDArray::wrap(second.data(), {elements}, f32), want});
    std::vector<float> got(kLanes, -1);
    ASSERT_EQ(call(compiled, &n, first.data(), second.data(), got.data()), 0);
    EXPECT_EQ(std::memcmp(got.data(), want.data<float>(), kLanes * sizeof(float)), 0);
  }
}

TEST(LlvmMaskedLoads, LanesThatAConstantMaskLeavesOutReadNothing) {
  for (const int64_t stride : {2, 3, 4, 7}) {
    for (const int64_t from : {0, 1, 5}) {
      for (const int64_t to : {6, 11, 16}) {
        const int64_t elements = (to - from - 1) * stride + 1;
        expect_value(elements, 0, [&](const Expr&, const Buffer& a, const Buffer&) {
          const Expr at = make_ramp(Expr(-from * stride), Expr(stride), kLanes);
          const Expr inside = all(Expr(from)) <= lane() && lane() < all(Expr(to));
          return select(inside, make_load(a, {at}), all(Expr(0.f)));
        });
      }
    }
  }
}

TEST(LlvmMaskedLoads, ElementsThatSeveralLanesRead) {
  for (const int64_t by : {2, 3}) {
    const int64_t elements = kLanes / by - 1;
    expect_value(elements, 0, [&](const Expr&, const Buffer& a, const Buffer&) {
      const Expr at = floordiv(lane() + 1, all(Expr(by))) - 1;
      const Expr inside = all(Expr(0)) <= at && at < all(Expr(elements));
      return select(inside, make_load(a, {at}), all(Expr(0.f)));
    });
  }
}

TEST(LlvmMaskedLoads, AConditionOfAllLanesIsABranch) {
  for (const int64_t n : {0, 3, 100}) {
    expect_value(20, n, [&](const Expr& length, const Buffer& a, const Buffer&) {
      const Expr at = make_ramp(length * 2 - 6, Expr(2), kLanes);
      const Expr inside = make_broadcast(length == 3, kLanes) && lane() < all(Expr(10));
      return select(inside, make_load(a, {at}), all(Expr(5.f)));
    });
  }
}

TEST(LlvmMaskedLoads, AReadAtThePositionOfAnExecutedOneNeedsNoMask) {
  for (const int64_t n : {0, 4, 8}) {
    expect_value(8, n, [&](const Expr& length, const Buffer& a, const Buffer& b) {
      const Expr at = floordiv(make_ramp(length * 2, Expr(1), kLanes), all(Expr(2))) - length;
      const Expr inner =
          select(make_load(b, {at}) < all(Expr(0.f)), make_load(a, {at}), all(Expr(9.f)));
      return select(lane() < all(Expr(15)), inner, all(Expr(0.f)));
    });
  }
}

TEST(LlvmMaskedLoads, ASafeReadUnderAConditionOnDataIsNoBranch) {
  const Buffer n = argument("n", i64, 1), a = argument("a", f32, 8), b = argument("b", f32, 8),
               out = argument("out", f32, 8);
  const Var i("i");
  const auto text = [&](const Expr& at, const Expr& value) {
    const Expr condition = make_load(b, {at}) < Expr(0.f);
    const Stmt body = make_store(out, {i}, select(condition, value, Expr(0.f)));
    return emit_llvm({{"f", {n, a, b, out}, make_for(i, 8, LoopKind::Serial, body)}}, test_target(),
                     "ll");
  };
  const Expr of_data = make_load(n, {Expr(0)});
  EXPECT_EQ(text(i, make_load(a, {i})).find("end.select"), std::string::npos);
  EXPECT_EQ(text(of_data, make_load(a, {of_data})).find("end.select"), std::string::npos);
  EXPECT_NE(text(i, make_load(a, {of_data})).find("end.select"), std::string::npos);
  EXPECT_NE(text(i, exp(make_load(a, {i}))).find("end.select"), std::string::npos);
}

// The right operand of "or" may be left out, so it says nothing about its position.
TEST(LlvmMaskedLoads, AReadThatMayBeLeftOutMakesNoOtherSafe) {
  expect_value(8, 3, [&](const Expr& length, const Buffer& a, const Buffer& b) {
    const Expr at = lane() * all(Expr(2)) + all(length - 3);
    const Expr outside = all(Expr(4)) <= lane();
    const Expr skip = outside || make_load(b, {at}) < all(Expr(0.f));
    return select(skip, all(Expr(0.f)), make_load(a, {at}));
  });
}

}  // namespace
}  // namespace heddle::testing
