// Several kernels for a family: which are kept, the tree, and the callable.
#include "heddle/family/choose.h"

#include <cmath>

#include "family/boundaries.h"
#include "family/family_testing.h"
#include "family/json.h"
#include "family/select.h"

namespace heddle::testing {
namespace {

using family::Raced;

// Candidate 0 is good for small sizes, 1 for large ones, 2 never.
std::vector<Raced> two_regimes() {
  std::vector<Raced> raced;
  for (const int64_t n : {1, 4, 16, 64, 256, 1024}) {
    const double small = n <= 16 ? 1 : 3, large = n <= 16 ? 4 : 1;
    raced.push_back({{n}, 1, {small, large, 5}});
  }
  return raced;
}

TEST(FamilySelect, KeepsWhatLowersTheExpectedSlowdown) {
  EXPECT_EQ(family::select(two_regimes(), 6), (std::vector<int>{0, 1}));
  EXPECT_EQ(family::select(two_regimes(), 1), (std::vector<int>{0}));
  std::vector<Raced> large = two_regimes();
  large[5].weight = 10;
  EXPECT_EQ(family::select(large, 1), (std::vector<int>{1}));
  EXPECT_NEAR(family::expected_loss(two_regimes(), {0, 1}), 0, 1e-12);
  EXPECT_NEAR(family::expected_loss(two_regimes(), {0}), std::log(3.0) / 2, 1e-12);
}

TEST(FamilySelect, ReplacesAnEarlierCandidateByABetterOne) {
  // 0 is second best everywhere; with two kernels, 1 and 2 are better than it and either.
  const std::vector<Raced> raced = {{{1}, 1, {1.2, 1, 9}}, {{2}, 1, {1.2, 9, 1}}};
  EXPECT_EQ(family::select(raced, 1), (std::vector<int>{0}));
  std::vector<int> kept = family::select(raced, 2);
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, (std::vector<int>{1, 2}));
}

TEST(FamilySelect, TreesAskForTheSizesBetweenThoseRaced) {
  const SizeTree tree = family::grow(two_regimes(), {0, 1});
  ASSERT_EQ(tree.size(), 3u);
  EXPECT_EQ(tree[0].at_most, 32);
  for (const int64_t n : {1, 16, 32}) EXPECT_EQ(variant_at(tree, {{n}}), 0);
  for (const int64_t n : {33, 64, 5000}) EXPECT_EQ(variant_at(tree, {{n}}), 1);
  EXPECT_EQ(family::grow(two_regimes(), {1}).size(), 1u);
}

TEST(FamilySelect, BoundariesAreFoundBetweenTheRacedSizes) {
  for (const int64_t last : {16, 35, 63}) {
    SizeTree tree = family::grow(two_regimes(), {0, 1});
    int races = 0;
    family::find_boundaries(tree, {1, 4, 16, 64, 256, 1024}, [&](int below, int above, int64_t n) {
      ++races;
      EXPECT_EQ(std::pair(below, above), std::pair(0, 1));
      EXPECT_TRUE(16 < n && n < 64) << n;
      return n <= last;
    });
    EXPECT_EQ(tree[0].at_most, last);
    EXPECT_LE(races, 6);
  }
}

// Records of earlier versions have another form of nodes.
TEST(FamilyJson, TreesOfEarlierVersionsAreRead) {
  const Dim n = dim("n", 8, 512).multiple_of(8);
  const auto family = [](const std::string& nodes) {
    return Json::parse(R"({"dims": [{"name": "n", "lo": 8, "hi": 512, "multiple": 8}],
                           "variants": [{"name": "a"}, {"name": "b"}], "tree": )" +
                       nodes + "}");
  };
  const Json old = family(
      R"([{"dim": "n", "at_most": 64, "yes": 1, "no": 2}, {"kernel": "b"}, {"kernel": "a"}])");
  const Json current =
      family(R"([{"feature": "n", "at_most": 64, "yes": 1, "no": 2}, {"leaf": 1}, {"leaf": 0}])");
  const std::vector<Var> sizes = {n.variable()};
  for (const Json& j : {old, current}) {
    const SizeTree tree = family::size_tree_from_json(j, sizes);
    EXPECT_EQ(variant_at(tree, {{8}}), 1) << "64 elements are eight of the multiple";
    EXPECT_EQ(variant_at(tree, {{9}}), 0);
  }
  EXPECT_THROW(family::size_tree_from_json(family(R"([{"kernel": "c"}])"), sizes), Error);
  EXPECT_THROW(family::size_tree_from_json(family("[]"), sizes), Error);
}

TEST(FamilySelect, TreesTellTwoDimensionsApart) {
  std::vector<Raced> raced;
  for (const int64_t n : {1, 100}) {
    for (const int64_t m : {1, 100}) {
      const bool both = n == 100 && m == 100;
      raced.push_back({{n, m}, 1, {both ? 2.0 : 1.0, both ? 1.0 : 2.0}});
    }
  }
  const SizeTree tree = family::grow(raced, {0, 1});
  for (const Raced& r : raced) {
    const auto v = static_cast<size_t>(variant_at(tree, r.sizes));
    EXPECT_EQ(r.seconds[v], 1.0);
  }
}

TEST(FamilyPoints, AreBothEndsAndSizesBetween) {
  const auto sizes = [](const std::vector<Dim>& dims, const FamilyOptions& o) {
    std::vector<int64_t> out;
    for (const FamilyPoint& p : family_points(dims, o)) out.push_back(p.sizes[0]);
    return out;
  };
  EXPECT_EQ(sizes({dim("n", 1, 256)}, {.points = 5}), (std::vector<int64_t>{1, 4, 16, 64, 256}));
  EXPECT_EQ(sizes({dim("n", 1, 3)}, {.points = 9}), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(sizes({dim("n", 1, 64).multiple_of(8)}, {.points = 3}),
            (std::vector<int64_t>{8, 24, 64}));
  EXPECT_EQ(family_points({dim("n", 1, 9), dim("m", 2, 9)}, {.points = 2}).size(), 4u);
  // Most calls are of 7 elements.
  FamilyOptions o{.points = 4};
  for (int64_t n = 1; n <= 100; ++n) o.histogram.push_back({{n}, n == 7 ? 300.0 : 1.0});
  const std::vector<FamilyPoint> points = family_points({dim("n", 1, 100)}, o);
  ASSERT_FALSE(points.empty());
  EXPECT_EQ(points[0].sizes[0], 7);
  EXPECT_GT(points[0].weight, 250);
}

TEST(ChooseFamily, TheCallableIsRightAtEverySize) {
  const Family f = matmul_family(dim("n", 1, 64));
  const std::vector<Tensor> args = all_args(ComputeDag({f.result}));
  FamilyResult chosen =
      choose_family({f.n}, args, {.max_kernels = 3, .points = 4, .race_seconds = 0.05});
  ASSERT_GE(chosen.variants.size(), 1u);
  EXPECT_LE(chosen.variants.size(), 3u);
  EXPECT_EQ(chosen.rows.size(), 10u);  // 1, 2, 3, 4, 6, 10, 16, 25, 40, 64
  EXPECT_GE(chosen.expected_slowdown, 1);
  const auto run = [&](int64_t n) {
    const ComputeDag dag(at_sizes({f.result}, {{f.n, n}}).outputs);
    const std::vector<NDArray> arrays = call_arrays(dag);
    chosen.kernel.call(arrays);
    return differs(dag, arrays, 1e-4);
  };
  for (const int64_t n : {1, 2, 7, 8, 30, 63, 64}) EXPECT_EQ(run(n), "") << n;
  for (const FamilyVariant& v : chosen.variants) {
    chosen.kernel.force(v.name);
    for (const int64_t n : {1, 13, 64}) EXPECT_EQ(run(n), "") << v.name << " at " << n;
  }
  chosen.kernel.force("");
  EXPECT_NE(error_of([&] { chosen.kernel.force("none"); }).find("no kernel 'none'"),
            std::string::npos);
  EXPECT_NE(error_of([&] { run(65); }).find("n"), std::string::npos);
  const NDArray x = NDArray::zeros({65, 24}, f32), w = NDArray::zeros({24, 40}, f32),
                y = NDArray::zeros({65, 40}, f32);
  EXPECT_NE(error_of([&] { chosen.kernel(x, w, y); }).find("1 to 64"), std::string::npos);
  EXPECT_NE(error_of([&] { chosen.kernel(x); }).find("takes 3 arguments"), std::string::npos);
  EXPECT_NE(to_text(chosen).find("expected slowdown"), std::string::npos);
  EXPECT_EQ(to_json(chosen).at("rows").size(), 10u);
}

TEST(ChooseFamily, ErrorsNameTheDimension) {
  const Family f = matmul_family();
  const std::vector<Tensor> args = all_args(ComputeDag({f.result}));
  const Dim other = dim("other", 1, 8);
  EXPECT_NE(error_of([&] { choose_family({}, args); }).find("'n'"), std::string::npos);
  EXPECT_NE(error_of([&] { choose_family({f.n, other}, args); }).find("'other'"),
            std::string::npos);
  const FamilyOptions o{.histogram = {{{301}, 1}}};
  EXPECT_NE(error_of([&] { choose_family({f.n}, args, o); }).find("cannot be 301"),
            std::string::npos);
}

}  // namespace
}  // namespace heddle::testing
