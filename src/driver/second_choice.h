#pragma once
// Where the static choice is unsure: the schedule that may be as fast.

#include <optional>

#include "heddle/schedule/schedule.h"
#include "heddle/schedule/template.h"

namespace heddle::driver {

/// The schedule that may be as fast as what create_schedule chooses for a template of alternatives;
/// none where the choice is sure, because a record is of this declaration or because nothing comes
/// near. It is
///   the rule's, where the record of a near case answers;
///   the graph of the best estimate, where a learned choice takes another one;
///   the second graph by estimate, where that is within a tenth of the first.
std::optional<Schedule> second_choice(const Template& alternatives);

}  // namespace heddle::driver
