// The passes at several sizes, and the graph that these have in common.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/instance.h"
#include "heddle/network/passes.h"
#include "heddle/target/target.h"
#include "network/passes/choice_list.h"

namespace heddle::network {

/// The settings of choices of some kinds.
std::map<std::string, bool> settings_of(const std::vector<NetworkChoice>& choices,
                                        bool (*of)(ChoiceKind));
/// The types that `passes` names for the products of a graph before they are made of shorter numbers.
StageTypes named_types(const ComputeDag& before, const PassOptions& passes);

/// Runs the passes on a network over dimensions: at the least sizes, at the usual and the next ones, and
/// at the largest. Choices whose names are the same at all sizes are those of the least sizes, and
/// products have the types that are named at the usual ones.
class PassesOverSizes {
 public:
  PassesOverSizes(const ComputeDag& declared, const Target& target, const PassOptions& passes,
                  const std::vector<SizeValue>& usual)
      : declared_(declared), target_(target), passes_(passes), others_(passes), usual_(usual) {
    others_.types.clear();
  }

  /// nullopt where the passes make different graphs at different sizes, and `why`.
  std::optional<ComputeDag> run(std::vector<PassApplication>& log, std::string& why);
  /// The choices at the usual sizes.
  const ChoiceList& of_usual() const { return of_usual_; }

 private:
  /// A declaration at some sizes, and its graph after passes.
  struct At {
    Instance here;
    ComputeDag dag;
    std::vector<PassApplication> log = {};
  };
  struct Made {
    std::vector<Tensor> outputs;
    std::vector<Tensor> placeholders;  ///< in the order of the declaration; empty: not read
  };

  std::vector<SizeValue> sizes_at(int64_t SizeRange::* end) const;
  At before_types(const std::vector<SizeValue>& sizes, ChoiceList& choices) const;
  void finish(At& at, ChoiceList& choices) const;
  Made from(size_t first);
  Made at_values() const;
  ChoiceList choices() const;

  const ComputeDag& declared_;
  const Target& target_;
  const PassOptions& passes_;
  PassOptions others_;  ///< at other sizes than the usual ones, where products have other names
  const std::vector<SizeValue>& usual_;
  std::vector<SizeValue> at_;
  std::map<std::string, bool> size_free_;  ///< settings of choices by name
  StageTypes types_;
  ChoiceList of_usual_{PassOptions()};
  std::optional<At> at_usual_;
};

}  // namespace heddle::network
