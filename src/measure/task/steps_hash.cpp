#include "measure/task/steps_hash.h"

#include "support/hashing/hash.h"

namespace heddle::measuring {

uint64_t steps_hash(const Schedule& schedule) {
  uint64_t h = schedule.steps().size();
  if (!schedule.dag().alternative().empty())
    h = hash_combine(h, hash_string(schedule.dag().alternative()));
  auto add = [&](int64_t v) { h = hash_combine(h, static_cast<uint64_t>(v)); };
  for (const Step& s : schedule.steps()) {
    add(static_cast<int64_t>(s.kind));
    add(s.stage);
    for (int a : s.axes) add(a);
    add(-1);
    for (const Param& p : s.params) add(p.value);
    add(-1);
    for (int r : s.results) add(r);
  }
  return h;
}

}  // namespace heddle::measuring
