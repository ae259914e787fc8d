// Updates of rows at places that are data (dsl/update.h, ops/scatter.h), in the form in which the graph
// that is cut has them.
//
//   last(i) = max(q, place(q) == i ? q : none)
//   next(i, r) = last(i) >= 0 ? row(last(i), r) : state(i, r)
//
//   places(q) = the row that is place(q); -1 where it is none, or a later row has it
//   rows(q, r) = places(q) >= 0 ? row(q, r) : 0           stored at row places(q) of the state
#pragma once

#include <optional>
#include <vector>

#include "heddle/network/network.h"
#include "network/cut/sizes/family_tasks.h"
#include "network/fusion/extract.h"

namespace heddle::network {

struct ScatteredUpdate {
  Tensor state;
  Tensor places;  ///< i64: counts the rows of the state, the dimensions that a place is of as one
  Tensor rows;
};

/// Finds such updates. Those of one network whose rows have the same places share the tensor of places.
class ScatteredUpdates {
 public:
  /// Nothing for all other tensors.
  std::optional<ScatteredUpdate> find(const Tensor& next);

 private:
  struct Known {
    Tensor last, places;
  };
  std::vector<Known> known_;
};

/// The input of a node that has nothing but the rows of a scattered update which says their places; -1
/// where there is none.
int places_input(const ExtractedNode& node);

/// The number of rows of a state that `rows` at `places` may go to: of all dimensions but those that
/// each row has.
int64_t rows_of_state(const Tensor& state, const Tensor& rows, const Tensor& places);

/// The schedules that store the rows of scattered updates at their places.
std::vector<TaskVariants> with_places(const Network& network, std::vector<TaskVariants> variants);

}  // namespace heddle::network
