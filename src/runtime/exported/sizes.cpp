#include "runtime/exported/sizes.h"

#include <string>

#include "heddle/support/error.h"

namespace heddle {

std::vector<int64_t> checked_sizes(const char* network, const heddle_size* sizes, int32_t count,
                                   const int64_t* given) {
  std::vector<int64_t> values;
  for (int32_t i = 0; i < count; ++i) {
    const heddle_size& size = sizes[i];
    if (given[i] >= size.lo && given[i] <= size.hi && given[i] % size.multiple == 0) {
      values.push_back(given[i] / size.multiple);
      continue;
    }
    const std::string multiples =
        size.multiple == 1 ? "" : ", multiples of " + std::to_string(size.multiple) + " only";
    throw_runtime_error(std::string("the size '") + size.name + "' is " + std::to_string(given[i]) +
                        ", and '" + network + "' is for " + std::to_string(size.lo) + " to " +
                        std::to_string(size.hi) + multiples);
  }
  return values;
}

int32_t exported_variant(const heddle_question* questions, int32_t num_variants,
                         const std::vector<int64_t>& values) {
  if (num_variants == 1) return 0;
  const heddle_question* q = questions;
  while (q->size >= 0) {
    const bool yes = values[static_cast<size_t>(q->size)] <= q->at_most;
    q = questions + (yes ? q->yes : q->no);
  }
  return q->variant;
}

}  // namespace heddle
