// Rows of results: which stages before them are declared for the row alone.
#include "dag/take_row.h"

#include <gtest/gtest.h>

#include "heddle/codegen/interpreter.h"
#include "heddle/dsl/dim.h"
#include "heddle/dsl/tensor.h"

namespace heddle {
namespace {

TEST(TakeRow, StagesOfOneRowAreDeclaredForIt) {
  const Tensor x = placeholder({5, 3}, f32, "x");
  const Tensor twice = compute({5, 3}, [&](Axis i, Axis j) { return x(i, j) * 2.f; }, "twice");
  const Tensor turned = compute({5, 3}, [&](Axis i, Axis j) { return twice(4 - i, j); }, "turned");
  const Tensor row = dag::take_row(ComputeDag({turned}), turned, 0, Expr(4));
  EXPECT_EQ(row.op()->inputs()[0].rank(), 1);
  const NDArray given = NDArray::random({5, 3}, f32, 1);
  const NDArray got = interpret({row}, {{x, given}})[0];
  for (int j = 0; j < 3; ++j) EXPECT_EQ(got.get(j), 2 * given.get(j));
}

TEST(TakeRow, ARowThatMayLieOutsideIsNotDeclared) {
  const Dim n = dim("n", 1, 8);
  const Tensor x = placeholder({n, 3}, f32, "x");
  const Tensor twice = compute({n, 3}, [&](Axis i, Axis j) { return x(i, j) * 2.f; }, "twice");
  const auto before = [&](int rows) {
    return compute(
        {n, 3},
        [&](Axis i, Axis j) { return select(i >= rows, twice(i - rows, j), make_const(f32, 7)); },
        "before");
  };
  for (const int rows : {0, 1}) {
    const Tensor t = before(rows);
    const Tensor row = dag::take_row(ComputeDag({t}), t, 0, n - 1);
    EXPECT_EQ(row.op()->inputs()[0].rank(), rows == 0 ? 1 : 2) << rows;
  }
}

TEST(TakeRow, ChainsHaveAnyLength) {
  const Tensor x = placeholder({5, 3}, f32, "x");
  Tensor t = x;
  for (int n = 0; n < 50000; ++n) {
    const Tensor before = t;
    t = compute({5, 3}, [&](Axis i, Axis j) { return before(i, j) + 1.f; }, "t");
  }
  const Tensor row = dag::take_row(ComputeDag({t}), t, 0, Expr(4));
  EXPECT_EQ(row.rank(), 1);
  EXPECT_EQ(ComputeDag({row}).size(), 50001);
}

}  // namespace
}  // namespace heddle
