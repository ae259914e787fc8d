// The race of the tasks of a network whose calls are only timed as a whole, as on a GPU, where the
// kernels of a call overlap.
#pragma once

#include <vector>

#include "network/race/variant_race.h"

namespace heddle::network {

/// The chance to win a task by luck. It is larger than in a race of a single task, because the race
/// of the whole network decides in the end, and a winner that is as fast as its base does no harm
/// there.
inline constexpr double kTaskLuck = 0.25;

/// Races the tasks one after the other. The variants of a task take turns in calls that have the
/// winners of the tasks before it, and the static choices of those after it. A call that runs the
/// task twice takes a turn, too: what it takes longer is the time of the static choice. A task that
/// is not visible in the call has no winner.
///
/// `results` has an entry for each variant of each task and gets their times, summed over the nodes
/// of a task. Returns the winners. Ends when `clock` expires.
std::vector<int> race_totals(std::vector<std::vector<MeasureResult>>& results, RunVariants run,
                             const VariantRaceLimits& limits, const TuneClock& clock);

}  // namespace heddle::network
