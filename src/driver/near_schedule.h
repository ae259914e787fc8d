// Records of near cases: the declaration at another number of threads, on another chip, or at sizes
// near it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/cost_model/cost_model.h"
#include "heddle/records/database.h"

namespace heddle::driver {

/// The schedule that a record of a near case makes here.
struct NearCandidate {
  Neighbour from;
  std::optional<Schedule> schedule;  ///< empty where it is not legal, or the rule's own choice
  std::string why_not;               ///< why `schedule` is empty
  /// How much better than the rule's choice the cost model and the analytic estimate find it:
  /// differences of predictions, and of estimates on the scale of log2. Above 0: better.
  double predicted = 0, estimated = 0;

  /// Whether both prefer it to the rule's choice.
  bool agreed() const { return schedule && predicted > 0 && estimated >= 0; }
};

/// What the records of the nearest cases make here, at most four of them legal, in the order in which
/// they should be taken: those that are agreed first, then by the sum of the ranks that the cost
/// model and the estimate give. `rule` is the choice of the rules for the same target and options.
std::vector<NearCandidate> near_candidates(const ComputeDag& dag, const Schedule& rule,
                                           const AutoSchedulerOptions& options,
                                           const RecordDatabase& known, CostModel& model);

/// An answer for a declaration that no record is of, or the reason for none.
struct NearAnswer {
  std::optional<Schedule> schedule;
  std::string why_not;
};

/// The schedule of the first candidate that the races of this chip prove (records/transfer_races.h). A
/// chip without such races has no answer.
NearAnswer near_schedule(const ComputeDag& dag, const Schedule& rule,
                         const AutoSchedulerOptions& options);

/// The cost model for a chip, or for the nearest one that has any, and its file; null where there is
/// none.
struct NearestModel {
  std::string file;
  std::shared_ptr<CostModel> model;
};
NearestModel load_nearest_model(const Target& target);

}  // namespace heddle::driver
