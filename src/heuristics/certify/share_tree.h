// A tree whose leaves are shares: of the measured problems of a region, how many had what was chosen for them within a
// share of the best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/heuristics/certificate.h"
#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/trained_tree.h"
#include "heddle/support/json.h"

namespace heddle::learning {

/// What came of the choice for a problem.
struct Outcome {
  bool within = false;
  double slower =
      kNotMeasured;  ///< log(time / least time that the machine allows), where that is known
};

/// A region of problems.
struct ShareLeaf {
  int problems = 0, within = 0;
  double share = 0;  ///< that a problem of the region is within, shrunk towards that of all
  double slower = kNotMeasured;  ///< mean of Outcome::slower
};

struct ShareTree {
  std::string heuristic = {}, version = {};
  std::vector<TrainedFeature> features = {};
  std::optional<std::vector<SeenKind>> kinds = {};  ///< as TrainedTree::kinds
  double margin = 0.25;                             ///< as TrainedTree::margin
  std::vector<TreeNode> nodes = {};
  std::vector<ShareLeaf> leaves = {};
  std::vector<CertificateBin> held_out =
      {};  ///< what trees said about problems that they had not seen

  int problems() const;
  int within() const;
};

struct ShareOptions {
  int folds = 5, depth = 4, leaf_size = 20;
  double shrinkage = 8;  ///< so many problems more, of the share of all, count in each leaf
  std::uint64_t seed = 1;
  int fewest = 40;  ///< problems without which nothing is said
};

/// The tree over the problems of `data`, whose features are all known; `outcomes` has one for each. The depth is the one
/// whose trees over four fifths of the problems give the others the largest likelihood. Empty where there are too few.
std::vector<ShareTree> grow_shares(const HeuristicData& data, const std::vector<Outcome>& outcomes,
                                   const ShareOptions& options = {});

/// The leaf of a problem with these values, or -1 and the reason: it is unlike those that were measured.
int leaf_of(const ShareTree& tree, const std::vector<double>& values, std::string* why_not);

/// Adds bins of the same tenths.
void add_bins(std::vector<CertificateBin>& sum, const std::vector<CertificateBin>& more);

Json to_json(const ShareTree& tree);
/// Throws a User error for what is no such tree.
ShareTree share_tree_from_json(const Json& json);

}  // namespace heddle::learning
