// heddle records transfers: races schedules of records on cases near their own.
#pragma once

#include <vector>

#include "commands.h"
#include "heddle/records/record.h"

namespace heddle::cli {

/// For each declaration of `records` and each of o.subjects, at each of o.thread_counts, races what
/// the records of the nearest other cases make of it against the rule's choice. A record of the case
/// itself is left out. Writes the races to o.output, and prints what a choice that knows all races but
/// those of the case would have gained. Returns the exit status.
int race_transfers(const Request& o, const std::vector<Record>& records);

}  // namespace heddle::cli
