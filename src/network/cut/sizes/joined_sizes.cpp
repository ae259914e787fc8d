#include "network/cut/sizes/joined_sizes.h"

#include <algorithm>
#include <limits>
#include <map>

namespace heddle::network {
namespace {

class Joiner {
 public:
  Joiner(std::span<const SizeTree> trees, size_t most) : trees_(trees), most_(most) {}

  std::optional<JoinedSizes> run() {
    add(std::vector<int>(trees_.size()));
    if (made_.combinations.size() > most_) return std::nullopt;
    return std::move(made_);
  }

 private:
  struct Range {
    double above = -std::numeric_limits<double>::infinity(),
           at_most = std::numeric_limits<double>::infinity();
  };

  const TreeNode& node(size_t tree, int at) const { return trees_[tree][static_cast<size_t>(at)]; }

  /// Adds what is beneath these nodes, one of each tree. Returns its place.
  int add(std::vector<int> at) {
    const auto place = made_.tree.size();
    made_.tree.emplace_back();
    for (size_t t = 0; t < at.size(); ++t) {
      while (!trees_[t].empty() && node(t, at[t]).feature >= 0) {
        const TreeNode split = node(t, at[t]);
        const Range known = ranges_[split.feature];
        if (known.at_most > split.at_most && known.above < split.at_most) {
          add_split(place, split, t, at);
          return static_cast<int>(place);
        }
        at[t] = known.at_most <= split.at_most ? split.yes : split.no;
      }
    }
    std::vector<int> leaves;
    for (size_t t = 0; t < at.size(); ++t)
      leaves.push_back(trees_[t].empty() ? 0 : node(t, at[t]).yes);
    std::vector<std::vector<int>>& all = made_.combinations;
    const auto found = std::find(all.begin(), all.end(), leaves);
    made_.tree[place].yes = static_cast<int>(found - all.begin());
    if (found == all.end()) all.push_back(std::move(leaves));
    return static_cast<int>(place);
  }

  void add_split(size_t place, const TreeNode& split, size_t tree, std::vector<int> at) {
    TreeNode made = split;
    const Range whole = ranges_[split.feature];
    if (made_.combinations.size() <= most_) {
      ranges_[split.feature].at_most = split.at_most;
      at[tree] = split.yes;
      made.yes = add(at);
      ranges_[split.feature] = {split.at_most, whole.at_most};
      at[tree] = split.no;
      made.no = add(at);
    }
    ranges_[split.feature] = whole;
    made_.tree[place] = made;
  }

  const std::span<const SizeTree> trees_;
  const size_t most_;
  std::map<int, Range> ranges_;  ///< of each size, where the nodes before lead to
  JoinedSizes made_;
};

}  // namespace

std::optional<JoinedSizes> join_sizes(std::span<const SizeTree> trees, size_t most) {
  return Joiner(trees, most).run();
}

}  // namespace heddle::network
