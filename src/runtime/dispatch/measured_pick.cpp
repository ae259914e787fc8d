// Picks by measurement, made now or remembered from an earlier run.
#include <algorithm>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "runtime/dispatch/multi_kernel_impl.h"
#include "runtime/dispatch/pick_log.h"
#include "support/hashing/hex.h"

namespace heddle {
// A key of the code of all variants, the target and the shapes. Empty where some code is not known.
std::string MultiKernel::Impl::key_of(const Call& call) const {
  std::string all = facts.target + "\n" + call.shapes + "\n";
  for (const size_t v : call.applicable) {
    const KernelVariant& variant = variants[v].variant;
    if (variant.code.empty()) return {};
    all += variant.name + "\t" + variant.code + "\n";
  }
  return key_of_text(all);
}

int MultiKernel::Impl::pick_remembered(const Call& call, PickRow& row, bool say_why) const {
  if (!options.store || call.key.empty()) return -1;
  std::string problem;
  const std::optional<PickRow> known = options.store->find(call.key, &problem);
  if (!problem.empty() && say_why) say("a remembered pick cannot be read: " + problem);
  if (!known) return -1;
  if (const std::string why = why_invalid(*known, facts.machine, facts.build); !why.empty()) {
    row.note = why;
    if (say_why) say(row.note);
    return -1;
  }
  const auto named = [&](size_t v) { return variants[v].variant.name == known->picked; };
  const auto at = std::find_if(call.applicable.begin(), call.applicable.end(), named);
  if (at == call.applicable.end()) return -1;
  row.variants = known->variants;
  row.reason = PickReason::Remembered;
  row.note = known->note;
  row.extra_bytes = 0;
  return static_cast<int>(*at);
}

int MultiKernel::Impl::pick_measured(const Call& call, PickRow& row) {
  if (!options.store || call.key.empty()) return measure(call, row);
  std::optional<PickLock> lock;
  try {
    lock = options.store->lock(call.key, 2 * options.seconds + 30);
  } catch (const Error& e) {
    say("picks are not remembered: " + e.message);
    return measure(call, row);
  }
  if (!lock) {
    row.note = "another process did not end its pick";
    return -1;
  }
  // Another process may have measured while this one waited.
  if (const int pick = pick_remembered(call, row, false); pick >= 0) return pick;
  return measure(call, row);
}

int MultiKernel::Impl::measure(const Call& call, PickRow& row) {
  std::vector<Racer> racers;
  for (const size_t v : call.applicable) {
    Racer r;
    r.name = variants[v].variant.name;
    r.reads_outputs = variants[v].variant.reads_outputs;
    r.make = [this, v]() -> std::function<void(std::span<const NDArray>)> {
      if (variants[v].variant.function) return variants[v].variant.function;
      return [kernel = compiled(v)](std::span<const NDArray> arrays) { kernel.call(arrays); };
    };
    r.kept_bytes = [this, v] {
      return variants[v].variant.function ? 0 : compiled(v).persistent_bytes();
    };
    racers.push_back(std::move(r));
  }
  // With arrays on the CPU, every time would include copies to the GPU, so they are copied first.
  std::vector<NDArray> arrays(call.arrays.begin(), call.arrays.end());
  int64_t copied = 0;
  if (facts.on_gpu && call.device.is_cpu()) {
    for (NDArray& a : arrays) {
      copied += a.bytes();
      a = a.to_device(Device::cuda());
    }
  }
  const Timer timer;
  const RaceResult result = race_variants(racers, arrays, call.args, facts.tolerances, options);
  row.variants = result.times;
  row.extra_bytes = result.extra_bytes + copied;
  row.spent_seconds = timer.elapsed_s();
  if (!result.note.empty()) row.note = result.note;
  for (const VariantTimes& v : result.times) {
    if (!v.dropped.empty()) say("variant '" + v.name + "' is dropped: " + v.dropped);
  }
  if (result.winner < 0) {
    if (!result.note.empty()) say(result.note);
    return -1;
  }
  row.reason = PickReason::Measured;
  const size_t pick = call.applicable[static_cast<size_t>(result.winner)];
  row.picked = variants[pick].variant.name;
  if (result.complete && options.store && !call.key.empty()) {
    try {
      options.store->remember(row);
    } catch (const Error& e) {
      say("the pick is not remembered: " + e.message);
    }
  }
  return static_cast<int>(pick);
}

}  // namespace heddle
