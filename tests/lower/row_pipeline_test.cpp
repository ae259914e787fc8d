// Loops whose iterations begin before the previous one has ended (lower/passes/row_pipeline.cpp).
#include <gmock/gmock.h>

#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Rows times what follows from the sums of their squares.
struct Norm {
  Tensor x, S, r, y;
  Norm(int64_t rows, int64_t columns) {
    x = placeholder({Expr(rows), Expr(columns)}, f32, "x");
    Axis k = reduce_axis(columns, "k");
    S = compute({Expr(rows)}, [&](Axis i) { return sum(x(i, k) * x(i, k), k); }, "S");
    r = compute({Expr(rows)}, [&](Axis i) { return 1.f / (S(i) + 1.f); }, "r");
    y = compute({Expr(rows), Expr(columns)}, [&](Axis i, Axis j) { return x(i, j) * r(i); }, "y");
  }
};

TEST(LowerRowPipeline, TheNextRowIsReducedWhileOneIsWritten) {
  Norm p(4, 5);
  Schedule s({p.y});
  s[p.r].compute_at(s[p.y], s[p.y].axis(0));
  s[p.S].compute_at(s[p.y], s[p.y].axis(0));
  s[p.y].software_pipeline(s[p.y].axis(0));
  EXPECT_EQ(text_after(s), R"(func kernel(x: f32[4, 5], y: f32[4, 5]) {
  local r: f32[1]
  local S: f32[1] {
    S[0] = 0.0f
    for k in 0..5 {
      S[0] = S[0] + x[k]*x[k]
    }
    r[0] = 1.0f/(S[0] + 1.0f)
  }
  for i in 0..4 {
    local S: f32[1]
    let i.next = min(i + 1, 3)
    S[0] = 0.0f
    for k in 0..5 {
      S[0] = S[0] + x[k + i.next*5]*x[k + i.next*5]
      y[i*5 + k] = x[i*5 + k]*r[0]
    }
    if i < 3 {
      r[0] = 1.0f/(S[0] + 1.0f)
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
  EXPECT_THAT(s.to_text(), HasSubstr("y.software_pipeline(i)"));
  EXPECT_EQ(Schedule::from_json(s.to_json(), s.dag()).to_text(), s.to_text());
}

// As the meta-templates write it: tasks of rows, vectors of partial sums; with what is left over.
TEST(LowerRowPipeline, EveryNumberAndLengthOfRows) {
  for (int64_t rows : {1, 2, 5, 8}) {
    for (int64_t n : {1, 4, 9, 16, 21}) {
      for (int64_t task : {1, 2, 3, 8}) {
        for (int64_t chunk : {4, 8}) {
          Norm p(rows, n);
          Schedule s({p.y});
          auto [to, row] = s[p.y].split(s[p.y].axis(0), task);
          s[p.y].parallel(to).software_pipeline(row);
          auto [jo, ji] = s[p.y].split(s[p.y].axis(1), 4);
          s[p.y].vectorize(ji);
          s[p.r].compute_at(s[p.y], row);
          s[p.S].compute_at(s[p.y], row);
          StageRef rf = s[p.S].rfactor(s[p.S].reduce_axis(0), chunk, true);
          rf.vectorize(rf.axis(0)).compute_at(s[p.y], row);
          EXPECT_EQ(wrong_after(s), "") << rows << " rows of " << n << ", " << task << " a task";
        }
      }
    }
  }
}

TEST(LowerRowPipeline, ARowThatIsKeptIsNotOverwrittenBeforeItIsRead) {
  Tensor x = placeholder({4, 6}, f32, "x");
  Tensor e = compute({4, 6}, [&](Axis i, Axis j) { return exp(x(i, j)); }, "e");
  Axis k = reduce_axis(6, "k");
  Tensor S = compute({4}, [&](Axis i) { return sum(e(i, k), k); }, "S");
  Tensor y = compute({4, 6}, [&](Axis i, Axis j) { return e(i, j) / S(i); }, "y");
  Schedule s({y});
  s[S].compute_at(s[y], s[y].axis(0));
  s[e].compute_at(s[S], s[S].reduce_axis(0)).store_at(s[y], s[y].axis(0));
  s[y].software_pipeline(s[y].axis(0));
  EXPECT_THAT(text_after(s), Not(HasSubstr(".next")));
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRowPipeline, WithNothingToReduceItIsASerialLoop) {
  Tensor x = placeholder({4, 6}, f32, "x");
  Tensor y = compute({4, 6}, [&](Axis i, Axis j) { return x(i, j) + 1.f; }, "y");
  Schedule s({y});
  s[y].software_pipeline(s[y].axis(0));
  EXPECT_THAT(text_after(s), HasSubstr("\n  for i in 0..4 {"));
  EXPECT_EQ(wrong_after(s), "");
}

}  // namespace
}  // namespace heddle::testing
