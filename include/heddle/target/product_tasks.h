// Whether a matrix product on a CPU has enough results to share out over the cores. Where it has
// not, the template for products cuts its sum into parts, and the graph rewrite split_k leaves it
// to that.
#pragma once

#include <algorithm>

#include "heddle/target/rule_constants.h"
#include "heddle/target/target.h"

namespace heddle {

/// Whether the product has too few tasks for each core. `results`: its number of results;
/// `lanes`: results in a vector of the target.
inline bool has_few_tasks(const Target& target, const CpuConstants& constants, double results,
                          double lanes) {
  return results / (constants.vectors_a_task * std::max(1.0, lanes)) <
         constants.tasks_a_core * std::max(1, target.cores);
}

}  // namespace heddle
