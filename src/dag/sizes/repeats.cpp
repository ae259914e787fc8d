#include "dag/sizes/repeats.h"

#include <algorithm>

namespace heddle::dag {

std::vector<Repeat> repeats_in(const Instance& there, const std::vector<Repeat>& repeats) {
  // A value that nothing reads has no counterpart.
  const auto move = [&](Tensor& t) {
    const auto at = std::find_if(there.tensors.begin(), there.tensors.end(),
                                 [&](const auto& pair) { return pair.first.same_as(t); });
    if (t && at != there.tensors.end()) t = at->second;
  };
  std::vector<Repeat> moved = repeats;
  for (Repeat& r : moved) {
    for (Repeat::Slice& s : r.slices) {
      move(s.row);
      move(s.whole);
      r.turns = s.whole.shape()[0];
    }
    for (Repeat::State& s : r.states) {
      for (Tensor* t : {&s.before, &s.first, &s.next, &s.last}) move(*t);
    }
    for (Repeat::Rows& rows : r.rows) {
      move(rows.row);
      move(rows.all);
      r.turns = rows.all.shape()[0];
    }
  }
  return moved;
}

}  // namespace heddle::dag
