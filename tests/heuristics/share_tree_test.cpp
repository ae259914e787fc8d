// Trees of shares: what they say about problems is true, and what they do not know they do not say.
#include "heuristics/certify/share_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/support/error.h"
#include "planted.h"

namespace heddle::learning {
namespace {

using ::testing::HasSubstr;

/// Problems whose choice is within with a probability of their features.
struct Drawn {
  HeuristicData data = planted_data();
  std::vector<Outcome> outcomes;
};

template <class Probability>
Drawn drawn(int count, std::uint64_t seed, const Probability& probability) {
  Drawn out;
  Rng rng(seed);
  add_problems(out.data, count, [](const auto&) { return std::vector<double>{1, 2, 3}; }, rng);
  for (const HeuristicProblem& p : out.data.problems) {
    const double rows = p.features[0];
    out.outcomes.push_back({rng.chance(probability(rows)), std::log(2.0)});
  }
  return out;
}

double by_rows(double rows) { return rows <= 200 ? 0.9 : 0.3; }

TEST(ShareTree, SaysWhatIsTrueOfNewProblems) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Drawn known = drawn(600, seed, by_rows), fresh = drawn(600, seed + 100, by_rows);
    const std::vector<ShareTree> grown = grow_shares(known.data, known.outcomes);
    ASSERT_EQ(grown.size(), 1U);
    const ShareTree& tree = grown[0];
    EXPECT_EQ(tree.problems(), 600);
    std::string why;
    const auto said = [&](double rows) {
      std::vector<double> values = fresh.data.problems[0].features;
      values[0] = rows;
      return tree.leaves.at(static_cast<std::size_t>(leaf_of(tree, values, &why))).share;
    };
    EXPECT_NEAR(said(50), 0.9, 0.12);
    EXPECT_NEAR(said(800), 0.3, 0.12);
    for (const CertificateBin& b : tree.held_out) {
      const double sigma = std::sqrt(b.said * (1 - b.said) / b.problems);
      EXPECT_NEAR(b.said, b.truth(), 4 * sigma) << b.problems;
    }
    for (const ShareLeaf& leaf : tree.leaves) EXPECT_NEAR(leaf.slower, std::log(2.0), 1e-5);
  }
}

TEST(ShareTree, WhereFeaturesSayNothingThereIsOneShare) {
  const Drawn known = drawn(400, 5, [](double) { return 0.7; });
  const std::vector<ShareTree> grown = grow_shares(known.data, known.outcomes);
  ASSERT_EQ(grown.size(), 1U);
  for (const CertificateBin& b : grown[0].held_out)
    EXPECT_NEAR(b.said, 0.7, 0.2) << "a tree that learns chance says much about what it has seen";
}

TEST(ShareTree, FewProblemsSayNothing) {
  const Drawn known = drawn(30, 5, by_rows);
  EXPECT_TRUE(grow_shares(known.data, known.outcomes).empty());
}

TEST(ShareTree, NothingIsSaidOfProblemsUnlikeThoseMeasured) {
  const Drawn known = drawn(200, 7, by_rows);
  const ShareTree tree = grow_shares(known.data, known.outcomes).at(0);
  std::vector<double> values = known.data.problems[0].features;
  values[0] = 1e6;
  std::string why;
  EXPECT_EQ(leaf_of(tree, values, &why), -1);
  EXPECT_THAT(why, HasSubstr("rows is 1"));
  values[0] = kNotMeasured;
  EXPECT_EQ(leaf_of(tree, values, &why), -1);
  EXPECT_THAT(why, HasSubstr("not known"));
}

TEST(ShareTree, JsonReadsBackToTheSameTree) {
  const Drawn known = drawn(300, 9, by_rows);
  const ShareTree tree = grow_shares(known.data, known.outcomes).at(0);
  const Json json = to_json(tree);
  const ShareTree again = share_tree_from_json(Json::parse(json.dump(), "test"));
  EXPECT_EQ(to_json(again).dump(), json.dump());
  std::string why;
  for (const HeuristicProblem& p : known.data.problems)
    EXPECT_EQ(leaf_of(again, p.features, &why), leaf_of(tree, p.features, &why));
}

TEST(ShareTree, HostileJsonIsAnError) {
  const Drawn known = drawn(300, 9, by_rows);
  const Json good = to_json(grow_shares(known.data, known.outcomes).at(0));
  const auto refused = [&](const char* key, const std::string& value) {
    Json bad = good;
    bad[key] = Json::parse(value, "test");
    EXPECT_THROW((void)share_tree_from_json(bad), Error) << key << " " << value;
  };
  refused("nodes", "[]");
  refused("nodes", R"([{"leaf": 999}])");
  refused("nodes", R"([{"feature": "rows", "at_most": 1, "yes": 0, "no": 0}])");
  refused("leaves", "[]");
  refused("leaves", R"([{"problems": 3, "within": 4, "share": 0.5}])");
  refused("leaves", R"([{"problems": 3, "within": 1, "share": 1.5}])");
  refused("held_out", R"([{"said": 0.5, "problems": 0, "within": 0}])");
  refused("margin", "-1");
}

}  // namespace
}  // namespace heddle::learning
