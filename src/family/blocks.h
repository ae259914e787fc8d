// Other sizes of blocks for the schedule of a family. The choice of a rule for one size may be slow
// at sizes near by.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/schedule/schedule.h"

namespace heddle::family {

/// Steps that take the place of others, by their position in the schedule.
using StepChanges = std::map<size_t, Step>;

/// The graph over dimensions that `at_one_size` is an instance of: that of `outputs`, or its
/// alternative of the same name. Throws the errors of apply_alternative.
ComputeDag graph_of(const Schedule& at_one_size, const std::vector<Tensor>& outputs);

/// The alternative and the steps of a schedule. Those of one declaration with equal ones make equal
/// kernels.
std::string identity(const Schedule& schedule);

/// Applies `at_one_size` to all sizes of `family`, the graph over dimensions that it is an instance
/// of, with these changes. Throws the errors of heddle::for_all_sizes.
Schedule for_all_sizes(const Schedule& at_one_size, const ComputeDag& family,
                       const StepChanges& changes = {});

/// For a GPU: blocks of one for each split that orders the blocks of an axis of varying length. The
/// last group of blocks would be as long as all others, and blocks beyond the axis would compute
/// for nothing.
StepChanges without_rasters(const Schedule& at_one_size, const ComputeDag& family);

/// A schedule for all sizes with other blocks; none where nothing would change.
struct BlockForm {
  const char* name = "";
  std::optional<Schedule> schedule = {};
};

/// Three forms of `at_one_size` for all sizes of the declaration of `outputs`. Throws the errors of
/// for_all_sizes.
///   ""                with its blocks. It is the only form for a GPU, where blocks are tiles.
///   ", longer blocks" Where one block covers the size of the rule, a block of four times the
///                     length. Sizes just above then have no second block, which would pack the
///                     operands that blocks share again.
///   ", shared blocks" Where blocks run in parallel, work for all cores at every size: each core has
///                     its part of an axis of constant length (constant_axis.h), or there are about
///                     eight blocks for each core. With a few long blocks, sizes that fill the last
///                     one in part would leave cores idle.
std::array<BlockForm, 3> block_forms(const Schedule& at_one_size,
                                     const std::vector<Tensor>& outputs);

/// `at_one_size` for all sizes of the declaration of `outputs`; where several cores share the work,
/// with shared blocks.
Schedule shared_at_all_sizes(const Schedule& at_one_size, const std::vector<Tensor>& outputs);

}  // namespace heddle::family
