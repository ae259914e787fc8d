#include "schedule/steps/product_part.h"

#include <algorithm>
#include <set>

namespace heddle {
namespace {

bool reads_elementwise(const ComputeDag& dag, int reader, int s) {
  const std::vector<Access>& reads = dag.info(reader).reads;
  return dag.stage(reader).output(0).extents() == dag.stage(s).output(0).extents() &&
         std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
           return a.producer != s || a.pattern == AccessPattern::Elementwise;
         });
}

}  // namespace

ProductPart product_part(const ComputeDag& dag, int product,
                         const std::function<bool(int)>& inside) {
  std::vector<int> stages{product};
  size_t end = 0;
  const auto holds = [&](int s) {
    return std::find(stages.begin(), stages.end(), s) != stages.end();
  };
  const std::vector<int>& first = dag.info(product).consumers;
  std::set<int> readers(first.begin(), first.end());
  while (!readers.empty()) {
    const int s = *readers.begin();
    readers.erase(readers.begin());
    const std::vector<int>& reads = dag.info(s).producers;
    const bool follows = inside(s) && !dag.stage(s).is_reduction() &&
                         std::any_of(reads.begin(), reads.end(), holds) &&
                         std::all_of(reads.begin(), reads.end(), [&](int p) {
                           return !holds(p) || reads_elementwise(dag, s, p);
                         });
    if (!follows) continue;
    stages.push_back(s);
    readers.insert(dag.info(s).consumers.begin(), dag.info(s).consumers.end());
    const bool closed = std::all_of(stages.begin(), stages.end() - 1, [&](int m) {
      const std::vector<int>& readers = dag.info(m).consumers;
      return std::all_of(readers.begin(), readers.end(), holds);
    });
    if (closed) end = stages.size() - 1;
  }
  stages.resize(end + 1);
  return {{product, stages.back()}, std::move(stages)};
}

}  // namespace heddle
