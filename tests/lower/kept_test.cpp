// Stages that are computed at one loop and kept for one around it (store_at).
#include <gmock/gmock.h>

#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

// y = e / S, where S[i] = sum(k, e[i, k]).
struct Weights {
  Tensor x, e, S, y;
  explicit Weights(int64_t rows = 2, int64_t n = 5) {
    x = placeholder({Expr(rows), Expr(n)}, f32, "x");
    e = compute({Expr(rows), Expr(n)}, [&](Axis i, Axis j) { return exp(x(i, j)); }, "e");
    Axis k = reduce_axis(n, "k");
    S = compute({Expr(rows)}, [&](Axis i) { return sum(e(i, k), k); }, "S");
    y = compute({Expr(rows), Expr(n)}, [&](Axis i, Axis j) { return e(i, j) / S(i); }, "y");
  }
};

TEST(LowerKept, OneLoopComputesAStageAndItsSum) {
  Weights p;
  Schedule s({p.y});
  s[p.S].compute_at(s[p.y], s[p.y].axis(0));
  s[p.e].compute_at(s[p.S], s[p.S].reduce_axis(0)).store_at(s[p.y], s[p.y].axis(0));
  EXPECT_EQ(text_after(s), R"(func kernel(x: f32[2, 5], y: f32[2, 5]) {
  for i in 0..2 {
    local S: f32[1]
    local e: f32[1, 5]
    S[0] = 0.0f
    for k in 0..5 {
      e[k] = exp(x[i*5 + k])
      S[0] = S[0] + e[k]
    }
    for j in 0..5 {
      y[i*5 + j] = e[j]/S[0]
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
  EXPECT_THAT(s.to_text(), HasSubstr("e.store_at(y, i)"));
  EXPECT_EQ(Schedule::from_json(s.to_json(), s.dag()).to_text(), s.to_text());
}

// As the meta-templates write it: several rows, in blocks, vectors of partial sums.
TEST(LowerKept, EveryLengthOfRowsAndVectors) {
  for (int64_t n : {1, 3, 7, 8, 12, 16, 21}) {
    for (int64_t chunk : {4, 8}) {
      for (int64_t block : {1, 2, 3}) {
        Weights p(5, n);
        Schedule s({p.y});
        auto [rows, row] = s[p.y].split(s[p.y].axis(0), block);
        (void)row;
        auto [so, si] = s[p.S].split(s[p.S].axis(0), 2);
        s[p.S].unroll(si);
        StageRef rf = s[p.S].rfactor(s[p.S].reduce_axis(0), chunk, true);
        auto [vo, vi] = rf.split(rf.axis(0), 4);
        rf.reorder({rf.reduce_axis(0), rf.axis(1), vo, vi});
        rf.unroll(vo);
        rf.vectorize(vi);
        rf.layout({{1}, {0}});
        rf.compute_at(s[p.S], so);
        s[p.S].compute_at(s[p.y], rows);
        auto [eo, ei] = s[p.e].split(s[p.e].axis(1), 8);
        (void)eo;
        s[p.e].vectorize(ei);
        s[p.e].prefetch(s[p.x], 0, 1);
        s[p.e].compute_at(rf, vo).store_at(s[p.y], rows);
        EXPECT_EQ(wrong_after(s), "") << n << " by " << chunk << ", rows by " << block;
      }
    }
  }
}

TEST(LowerKept, AReductionTouchesWhatComesNextToo) {
  Weights p;
  Schedule s({p.y});
  s[p.e].compute_inline();
  s[p.S].compute_at(s[p.y], s[p.y].axis(0));
  s[p.S].prefetch(s[p.x], 0, 1);
  EXPECT_THAT(text_after(s), HasSubstr("      prefetch x[i*5 + k + 5]\n"
                                       "      S[0] = S[0] + exp(x[i*5 + k])\n"));
  EXPECT_EQ(wrong_after(s), "");
}

std::string refused(const Schedule& s) {
  return error_of([&] { lower(s, all_args(s.dag())); });
}

TEST(LowerKept, AllOfItMustBeComputed) {
  Weights p(2, 6);
  Axis k = reduce_axis(3, "k");
  const Tensor half = compute({2}, [&](Axis i) { return sum(p.e(i, k * 2), k); }, "half");
  const Tensor y = compute({2, 6}, [&](Axis i, Axis j) { return p.e(i, j) / half(i); }, "y");
  Schedule s({y});
  s[half].compute_at(s[y], s[y].axis(0));
  s[p.e].compute_at(s[half], s[half].reduce_axis(0)).store_at(s[y], s[y].axis(0));
  EXPECT_THAT(refused(s), HasSubstr("the loops between may not compute all of it"));
  // Neither does a diagonal.
  Axis d = reduce_axis(6, "d");
  const Tensor square =
      compute({6, 6}, [&](Axis i, Axis j) { return exp(p.x(0, i + j * 0)); }, "q");
  const Tensor trace = compute({1}, [&](Axis i) { return sum(square(d, d + i), d); }, "trace");
  const Tensor z =
      compute({1, 6, 6}, [&](Axis b, Axis i, Axis j) { return square(i, j) / trace(b); }, "z");
  Schedule t({z});
  t[trace].compute_at(t[z], t[z].axis(0));
  t[square].compute_at(t[trace], t[trace].reduce_axis(0)).store_at(t[z], t[z].axis(0));
  EXPECT_THAT(refused(t), HasSubstr("the loops between may not compute all of it"));
}

TEST(LowerKept, WhoeverElseReadsItMustWait) {
  Weights p;
  const Tensor early = compute({2, 5}, [&](Axis i, Axis j) { return p.e(i, j) + 1.f; }, "early");
  const Tensor y = compute({2, 5}, [&](Axis i, Axis j) { return early(i, j) / p.S(i); }, "y");
  Schedule s({y});
  s[p.S].compute_at(s[y], s[y].axis(0));
  s[early].compute_at(s[y], s[y].axis(0));
  s[p.e].compute_at(s[p.S], s[p.S].reduce_axis(0)).store_at(s[y], s[y].axis(0));
  EXPECT_THAT(refused(s), HasSubstr("'early' may read it before that"));
}

TEST(LowerKept, TheLoopsBetweenRunOneAfterTheOther) {
  Weights p;
  Schedule s({p.y});
  s[p.S].compute_at(s[p.y], s[p.y].axis(0));
  StageRef rf = s[p.S].rfactor(s[p.S].reduce_axis(0), 2, true);
  rf.compute_at(s[p.y], s[p.y].axis(0));
  s[p.e].compute_at(rf, rf.axis(0)).store_at(s[p.y], s[p.y].axis(0));
  EXPECT_EQ(wrong_after(s), "");
  rf.parallel(rf.axis(0));
  EXPECT_THAT(refused(s), HasSubstr("loop 'k.i' between is parallel"));
}

TEST(LowerKept, TheLoopsMustLieWithinEachOther) {
  Weights p;
  auto kept = [&](auto place) {
    return error_of([&] {
      Schedule s({p.y});
      s[p.S].compute_at(s[p.y], s[p.y].axis(0));
      place(s);
      lower(s, all_args(s.dag()));
    });
  };
  EXPECT_THAT(kept([&](Schedule& s) { s[p.e].store_at(s[p.y], s[p.y].axis(0)); }),
              HasSubstr("it is computed at the root"));
  EXPECT_THAT(kept([&](Schedule& s) {
                s[p.e].compute_at(s[p.S], s[p.S].reduce_axis(0)).store_at(s[p.y], s[p.y].axis(1));
              }),
              HasSubstr("it is not computed within a stage that is computed at that loop"));
  // Moved later.
  EXPECT_THAT(kept([&](Schedule& s) {
                s[p.e].compute_at(s[p.S], s[p.S].reduce_axis(0)).store_at(s[p.y], s[p.y].axis(0));
                s[p.S].compute_at(s[p.y], s[p.y].axis(1));
              }),
              HasSubstr("that is another loop than 'S' is computed at"));
  EXPECT_THAT(kept([&](Schedule& s) {
                s[p.e].compute_at(s[p.S], s[p.S].reduce_axis(0)).store_at(s[p.y], s[p.y].axis(0));
                s[p.y].split(s[p.y].axis(0), 2);
              }),
              HasSubstr("is computed at axis 'i'"));
}

}  // namespace
}  // namespace heddle::testing
