// Whether a matrix product on a CPU has enough results to share out over the cores. Where it has
// not, the template for products cuts its sum into parts, and the graph rewrite split_k leaves it
// to that.
#pragma once

#include <algorithm>

#include "heddle/target/target.h"

namespace heddle {

/// Whether the product has fewer than two tasks for each core. `results`: its number of results;
/// `lanes`: results in a vector of the target.
inline bool has_few_tasks(const Target& target, double results, double lanes) {
  constexpr double kVectorsATask = 16;  // vectors of results below which a task does not pay
  return results / (kVectorsATask * std::max(1.0, lanes)) < 2.0 * std::max(1, target.cores);
}

}  // namespace heddle
