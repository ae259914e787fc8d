// How often a schedule computes the elements of a stage.
#include "schedule/times_computed.h"

#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

/// The count of stage `t`.
double times_of(const Schedule& s, const Tensor& t) {
  return times_computed(s)[static_cast<size_t>(s.dag().index_of(t.op()))];
}

/// Sums of three neighbours of a shifted vector.
struct Windows {
  Tensor x = placeholder({12}, f32, "x");
  Tensor b = compute({12}, [&](Axis i) { return x(i) + 1.f; }, "b");
  Tensor c = compute({10}, [&](Axis i) { return b(i) + b(i + 1) * b(i + 2); }, "c");
};

TEST(TimesComputed, OnceAtTheRoot) {
  const Windows p;
  const Schedule s({p.c});
  EXPECT_EQ(times_of(s, p.b), 1);
  EXPECT_EQ(times_of(s, p.c), 1);
  EXPECT_EQ(times_of(s, p.x), 0) << "an argument";
}

TEST(TimesComputed, OnceForEachReadOfAnInlinedStage) {
  const Windows p;
  Schedule s({p.c});
  s[p.b].compute_inline();
  EXPECT_DOUBLE_EQ(times_of(s, p.b), 30. / 12);
  const Tensor both = compute({12}, [&](Axis i) { return p.b(i) * p.b(i); }, "both");
  Schedule t({both});
  t[p.b].compute_inline();
  EXPECT_EQ(times_of(t, p.b), 1) << "one value, used twice";
}

TEST(TimesComputed, ThroughAChainOfInlinedStages) {
  const Windows p;
  const Tensor d = compute({8}, [&](Axis i) { return p.c(i) - p.c(i + 2); }, "d");
  Schedule s({d});
  s[p.c].compute_inline();
  s[p.b].compute_inline();
  EXPECT_DOUBLE_EQ(times_of(s, p.c), 16. / 10);
  EXPECT_DOUBLE_EQ(times_of(s, p.b), 5 * 8. / 12) << "b(i) to b(i + 4)";
}

TEST(TimesComputed, WhatBlocksReadInCommonIsComputedByEach) {
  const Windows p;
  Schedule s({p.c});
  const auto [outer, inner] = s[p.c].split(s[p.c].axes<1>()[0], 5);
  s[p.b].compute_at(s[p.c], outer);
  EXPECT_DOUBLE_EQ(times_of(s, p.b), 2 * 7. / 12);
}

TEST(TimesComputed, LoopsOfAStageInABlockAreThoseOfTheBlock) {
  const Tensor x = placeholder({16});
  const Tensor b = ops::relu(x), c = ops::exp(b), d = ops::abs(c);
  Schedule s({d});
  const auto [outer, inner] = s[d].split(s[d].axis(0), 4);
  s[c].compute_at(s[d], outer);
  s[b].compute_at(s[c], s[c].axis(0));
  EXPECT_EQ(times_of(s, c), 1);
  EXPECT_EQ(times_of(s, b), 1) << "in each block for its own four elements";
}

TEST(TimesComputed, OnceForEachBlockOfColumnsOfAProduct) {
  const Tensor a = placeholder({16, 12}), w = placeholder({12, 32});
  const Tensor r = ops::relu(a), y = ops::matmul(r, w);
  Schedule s({y});
  const auto [i, j] = s[y].axes<2>();
  const auto [io, ii] = s[y].split(i, 4);
  const auto [jo, ji] = s[y].split(j, 8);
  const Loop k = s[y].reduce_axis(0);
  s[y].reorder({jo, io, k, ii, ji});
  s[r].compute_at(s[y], io);
  EXPECT_EQ(times_of(s, r), 4);
  Schedule inside({y});
  inside[r].compute_inline();
  EXPECT_EQ(times_of(inside, r), 32);
}

TEST(TimesComputed, OnceForTheColumnsOfATileInRegisters) {
  const Tensor a = placeholder({16, 12}), w = placeholder({12, 32});
  const Tensor r = ops::relu(a), y = ops::matmul(r, w);
  Schedule s({y});
  const auto [i, j] = s[y].axes<2>();
  const auto [jo, ji] = s[y].split(j, 8);
  s[y].reorder({i, jo, s[y].reduce_axis(0), ji});
  s[y].vectorize(ji);
  s[r].compute_inline();
  EXPECT_EQ(times_of(s, r), 4);
}

TEST(TimesComputed, APackedCopyComputesItsSourceOnce) {
  const Tensor a = placeholder({16, 12}), w = placeholder({12, 32});
  const Tensor r = ops::relu(a), y = ops::matmul(r, w);
  Schedule s({y});
  s[r].cache_read({s[y]});
  s[r].compute_inline();
  EXPECT_EQ(times_of(s, r), 1);
}

TEST(TimesComputed, ASumInPartsCountsAsItsParts) {
  const Tensor x = placeholder({4, 64});
  const Tensor e = ops::exp(x), y = ops::sum(e, {1});
  Schedule s({y});
  s[y].rfactor(s[y].reduce_axis(0), 8, false);
  s[e].compute_inline();
  EXPECT_EQ(times_of(s, e), 1);
  EXPECT_EQ(times_of(s, y), 1);
}

}  // namespace
}  // namespace heddle::testing
