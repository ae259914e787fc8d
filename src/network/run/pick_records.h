// What was timed for a pick, as records of tuning, from which heuristics learn.
#pragma once

#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/pick_row.h"

namespace heddle::network {

/// A record for each of the variants of a task, with the times of the row. The static choice is `of_rule`, whose time is
/// what the others are compared with.
Json pick_records(const TuneTask& task, const std::vector<Schedule>& variants, const PickRow& row,
                  size_t of_rule);

}  // namespace heddle::network
