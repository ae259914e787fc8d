// Other sizes of blocks for the schedule of a family. What a rule chooses for one size may be an
// unlucky choice for sizes near by.
#pragma once

#include <optional>
#include <vector>

#include "heddle/schedule/schedule.h"

namespace heddle::family {

/// Factors that replace those of some splits; by the position of the step. 0: as it was.
using SplitFactors = std::vector<int64_t>;

/// `at_one_size` for all sizes of `outputs`, with these factors; none: as they were.
Schedule for_all_sizes(const Schedule& at_one_size, const std::vector<Tensor>& outputs,
                       const SplitFactors& factors);

enum class BlockForm : uint8_t {
  /// Where one block holds all that the rule saw, four times as long. Sizes just above then have no
  /// second block, which would pack the operands that blocks share again.
  Longer,
  /// Where blocks run in parallel, about eight of them for each core. Sizes that fill the last of a
  /// few long blocks in part would leave cores idle.
  Shorter,
};

/// `schedule`, chosen at one size, in that form for all sizes of `outputs`; nullopt where nothing
/// changes. Throws what for_all_sizes throws.
std::optional<Schedule> with_blocks(const Schedule& at_one_size, const std::vector<Tensor>& outputs,
                                    BlockForm form);

}  // namespace heddle::family
