#include "heddle/dag/all_producers.h"

namespace heddle {

std::vector<int> all_producers(const ComputeDag& dag, int stage) {
  // Producers come before their consumers, so that one pass backwards meets every consumer first.
  std::vector<bool> needed(static_cast<size_t>(stage) + 1);
  needed.back() = true;
  for (int x = stage; x >= 0; --x) {
    if (!needed[static_cast<size_t>(x)]) continue;
    for (int p : dag.info(x).producers) needed[static_cast<size_t>(p)] = true;
  }
  std::vector<int> out;
  for (int x = 0; x < stage; ++x) {
    if (needed[static_cast<size_t>(x)]) out.push_back(x);
  }
  return out;
}

}  // namespace heddle
