// Other sizes of blocks for the schedule of a family. The choice of a rule for one size may be slow
// at sizes near by.
#pragma once

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

enum class BlockForm : uint8_t {
  /// Where one block covers the size of the rule, a block of four times the length. Sizes just
  /// above then have no second block, which would pack the operands that blocks share again.
  Longer,
  /// Where blocks run in parallel, work for all cores at every size: each core has its part of an
  /// axis of constant length (family_constant_axis.h), or there are about eight blocks for each
  /// core. With a few long blocks, sizes that fill the last one in part would leave cores idle.
  Shared,
};

/// `at_one_size` in that form for all sizes of `family`. nullopt where nothing changes. Throws the
/// errors of for_all_sizes.
std::optional<Schedule> with_blocks(const Schedule& at_one_size, const ComputeDag& family,
                                    BlockForm form);

/// `at_one_size` for all sizes of the declaration of `outputs`; where several cores share the work,
/// in the form `Shared`.
Schedule shared_at_all_sizes(const Schedule& at_one_size, const std::vector<Tensor>& outputs);

}  // namespace heddle::family
