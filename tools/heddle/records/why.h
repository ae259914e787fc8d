// heddle records why: what answered for a subject, or for each node of a model, and why not the
// others.
#pragma once

#include <vector>

#include "commands.h"
#include "heddle/records/record.h"

namespace heddle::cli {

/// Prints the answer for o.subject. `records` are those of o.logs, if it names any; otherwise all
/// that create_schedule consults is asked. Returns the exit status.
int run_why(const Request& o, std::vector<Record> records);

}  // namespace heddle::cli
