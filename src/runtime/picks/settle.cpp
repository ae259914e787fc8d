// How a multi-kernel picks a variant for a call.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "heddle/runtime/timer.h"
#include "heddle/support/edit_distance.h"
#include "heddle/support/error.h"
#include "heddle/support/hash.h"
#include "heddle/support/log.h"
#include "runtime/check_arguments.h"
#include "runtime/cuda/capture.h"
#include "runtime/picks/multi_kernel_impl.h"
#include "support/line_log.h"

namespace heddle {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string hex16(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

bool takes(const KernelVariant& v, std::span<const NDArray> arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    for (size_t d = 0; d < v.args[i].shape.size(); ++d) {
      const int64_t want = v.args[i].shape[d];
      if (want >= 0 && want != arrays[i].shape()[d]) return false;
    }
  }
  return true;
}

/// What HEDDLE_PICK says of a kernel: "NAME", or "kernel=NAME,other=NAME".
std::string forced_by_variable(const std::string& kernel) {
  const std::string list = variable("HEDDLE_PICK");
  if (list.find('=') == std::string::npos) return list;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = item.rfind('=');  // kernels' names may have some
    if (equals == std::string::npos) {
      throw_user_error("HEDDLE_PICK has '" + item + "' among pairs", {},
                       "write KERNEL=VARIANT,KERNEL=VARIANT, or one VARIANT for all");
    }
    if (item.substr(0, equals) == kernel) return item.substr(equals + 1);
  }
  return {};
}

bool in_capture(Device device) {
  return device.is_cuda() && cuda::capture_of(device.index) != nullptr;
}

}  // namespace

/// A call for which a pick is made.
struct MultiKernel::Impl::Call {
  std::span<const NDArray> arrays;
  Device device;
  std::vector<KernelArg> args;     ///< with the extents of the call
  std::vector<size_t> applicable;  ///< variants that take it, of different code
  std::string shapes;
  std::string key;
};

std::vector<std::string> MultiKernel::Impl::names() const {
  std::vector<std::string> out;
  for (const VariantState& v : variants) out.push_back(v.variant.name);
  return out;
}

size_t MultiKernel::Impl::index_of(const std::string& variant) const {
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].variant.name == variant) return i;
  }
  std::string list;
  for (const std::string& n : names()) list += (list.empty() ? "" : ", ") + n;
  std::string hint = did_you_mean(variant, names());
  throw_user_error("'" + facts.name + "' has no variant '" + variant + "'", {},
                   (hint.empty() ? "" : hint + " ") + "it has " + list +
                       "; HEDDLE_PICK can be limited to one kernel: " + facts.name + "=" +
                       variants[0].variant.name);
}

void MultiKernel::Impl::read_forced() {
  const std::string by_variable = options.force.empty() ? forced_by_variable(facts.name) : "";
  const std::string& name = options.force.empty() ? by_variable : options.force;
  if (name.empty()) return;
  forced_by = options.force.empty() ? "HEDDLE_PICK" : "PickOptions::force";
  forced = static_cast<int>(index_of(name));
}

void MultiKernel::Impl::say(const std::string& text) const {
  const std::string line = "'" + facts.name + "': " + text;
  if (options.message) return options.message(line);
  std::fprintf(stderr, "heddle: %s\n", line.c_str());
}

Kernel MultiKernel::Impl::compiled(size_t variant) {
  const std::lock_guard lock(compile_mutex);
  VariantState& v = variants[variant];
  if (!v.kernel) v.kernel = v.variant.compile();
  return v.kernel;
}

void MultiKernel::Impl::call_function(const Settled& settled,
                                      std::span<const NDArray> arrays) const {
  // The table was asked for the free extents alone.
  if (settled.extents.empty()) {
    check_arguments(facts.name, args, arrays, on_gpu());
    return settled.function(arrays);
  }
  std::vector<KernelArg> exact = args;
  for (size_t i = 0; i < exact.size(); ++i) {
    for (size_t d = 0; d < exact[i].shape.size(); ++d) {
      const bool there = arrays[i].shape().size() == exact[i].shape.size();
      if (exact[i].shape[d] < 0 && there) exact[i].shape[d] = arrays[i].shape()[d];
    }
  }
  check_arguments(facts.name, exact, arrays, on_gpu());
  settled.function(arrays);
}

void MultiKernel::Impl::settle_and_call(std::span<const NDArray> arrays) {
  Settled settled;
  settle(arrays, &settled);
  settled.function ? settled.function(arrays) : settled.kernel.call(arrays);
}

PickRow MultiKernel::Impl::settle(std::span<const NDArray> arrays, Settled* settled) {
  Call call;
  call.arrays = arrays;
  call.args = args;
  for (size_t i = 0; i < call.args.size() && i < arrays.size(); ++i) {
    KernelArg& a = call.args[i];
    const bool known = arrays[i].defined() && arrays[i].shape().size() == a.shape.size();
    for (size_t d = 0; d < a.shape.size(); ++d) {
      if (a.shape[d] < 0 && known) a.shape[d] = arrays[i].shape()[d];
    }
  }
  call.device = check_arguments(facts.name, call.args, arrays, on_gpu());
  for (const NDArray& a : arrays) {
    call.shapes += (call.shapes.empty() ? "" : ", ") + to_string(a.dtype()) + "[";
    for (size_t d = 0; d < a.shape().size(); ++d) {
      call.shapes += (d > 0 ? ", " : "") + std::to_string(a.shape()[d]);
    }
    call.shapes += "]";
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    const VariantState& v = variants[i];
    if (v.same_as == i && takes(v.variant, arrays)) call.applicable.push_back(i);
  }
  if (call.applicable.empty()) {
    throw_runtime_error("no variant of '" + facts.name + "' takes " + call.shapes, {},
                        "add a variant for any shape, such as a function");
  }
  call.key = key_of(call);
  // A call from a variant, or from a thread that a variant waits for, must not wait for the pick.
  std::unique_lock lock(settling, std::defer_lock);
  const bool nested = settler.load() == std::this_thread::get_id();
  if (nested || !lock.try_lock_for(std::chrono::duration<double>(2 * options.seconds + 30))) {
    PickRow row;
    row.picked = variants[call.applicable[0]].variant.name;
    row.note = nested ? "called by a variant of its own" : "another thread did not end its pick";
    if (settled != nullptr) *settled = made(call, call.applicable[0]);
    return row;
  }
  settler = std::this_thread::get_id();
  const auto done = [this](void*) { settler = std::thread::id(); };
  const std::unique_ptr<Impl, decltype(done)> at_end(this, done);
  return settle_locked(call, settled);
}

PickRow MultiKernel::Impl::settle_locked(const Call& call, Settled* settled) {
  {
    const std::lock_guard guard(rows_mutex);
    if (const Settled* known = table.find(call.arrays)) {
      if (settled != nullptr) *settled = *known;
      for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
        if (row->shapes == call.shapes) return *row;
      }
    }
  }
  PickRow row;
  row.kernel = facts.name;
  row.target = facts.target;
  row.machine = facts.machine;
  row.build = facts.build;
  row.shapes = call.shapes;
  row.key = call.key;
  row.unix_time = static_cast<int64_t>(std::time(nullptr));
  for (const size_t v : call.applicable) row.variants.push_back({variants[v].variant.name, {}, {}});

  int pick = pick_forced(call, row);
  if (pick < 0 && call.applicable.size() == 1) {
    row.reason = PickReason::Only;
    pick = static_cast<int>(call.applicable[0]);
  }
  if (pick < 0) pick = pick_chosen(call, row);
  if (pick < 0) pick = pick_remembered(call, row, true);
  const bool captured = in_capture(call.device);
  if (pick < 0 && captured) row.note = "not measured while a graph is captured";
  if (pick < 0 && !captured && options.measure) pick = pick_measured(call, row);
  if (pick < 0) {
    row.reason = PickReason::Static;
    pick = static_cast<int>(call.applicable[0]);
  }
  row.picked = variants[static_cast<size_t>(pick)].variant.name;
  const Settled result = made(call, static_cast<size_t>(pick));
  if (settled != nullptr) *settled = result;
  keep(call, row, result, !captured || row.reason != PickReason::Static);
  return row;
}

Settled MultiKernel::Impl::made(const Call& call, size_t variant) {
  Settled s;
  s.variant = variant;
  s.extents = table.extents_of(call.arrays);
  if (variants[variant].variant.function) {
    s.function = variants[variant].variant.function;
  } else {
    s.kernel = compiled(variant);
  }
  return s;
}

void MultiKernel::Impl::keep(const Call& call, const PickRow& row, const Settled& settled,
                             bool for_good) {
  if (for_good) {
    const std::lock_guard guard(rows_mutex);
    table.add(settled);
    rows.push_back(row);
  }
  // What the others prepared of constants is not needed any more, as far as is known.
  for (const size_t v : call.applicable) {
    if (v != settled.variant && row.reason == PickReason::Measured && variants[v].kernel) {
      variants[v].kernel.refresh();
    }
  }
  log(row);
}

int MultiKernel::Impl::applicable_index(const Call& call, const std::string& variant) const {
  const size_t index = variants[index_of(variant)].same_as;
  const auto& list = call.applicable;
  return std::find(list.begin(), list.end(), index) == list.end() ? -1 : static_cast<int>(index);
}

int MultiKernel::Impl::pick_forced(const Call& call, PickRow& row) const {
  const int index = forced.load();
  if (index < 0) return -1;
  const std::string& name = variants[static_cast<size_t>(index)].variant.name;
  const int pick = applicable_index(call, name);
  if (pick < 0) {
    throw_runtime_error("variant '" + name + "' of '" + facts.name + "' is forced by " +
                        forced_by.load() + " and does not take " + call.shapes);
  }
  row.reason = PickReason::Forced;
  row.note = std::string("by ") + forced_by.load();
  return pick;
}

int MultiKernel::Impl::pick_chosen(const Call& call, PickRow& row) const {
  if (!options.choose) return -1;
  PickQuery query{facts.name, facts.target, call.args, {}, {}};
  for (const KernelArg& a : call.args) {
    for (size_t d = 0; d < a.shape.size(); ++d) {
      query.features.emplace_back(a.name + "." + std::to_string(d),
                                  static_cast<double>(a.shape[d]));
    }
  }
  for (const size_t v : call.applicable) query.variants.push_back(variants[v].variant.name);
  const std::string name = options.choose(query);
  if (name.empty()) return -1;
  const int pick = applicable_index(call, name);
  if (pick < 0) {
    throw_runtime_error("the chooser of '" + facts.name + "' chose '" + name +
                        "', which does not take " + call.shapes);
  }
  row.reason = PickReason::Chosen;
  return pick;
}

// The code of all variants, the target and the shapes. Empty where some code is not known.
std::string MultiKernel::Impl::key_of(const Call& call) const {
  std::string all = facts.target + "\n" + call.shapes + "\n";
  for (const size_t v : call.applicable) {
    const KernelVariant& variant = variants[v].variant;
    if (variant.code.empty()) return {};
    all += variant.name + "\t" + variant.code + "\n";
  }
  return hex16(hash_bytes(all.data(), all.size(), 1)) +
         hex16(hash_bytes(all.data(), all.size(), 2));
}

int MultiKernel::Impl::pick_remembered(const Call& call, PickRow& row, bool say_why) const {
  if (!options.store || call.key.empty()) return -1;
  std::string problem;
  const std::optional<PickRow> known = options.store->find(call.key, &problem);
  if (!problem.empty() && say_why) say("a remembered pick cannot be read: " + problem);
  if (!known) return -1;
  if (known->build != facts.build || known->machine != facts.machine) {
    const bool build = known->build != facts.build;
    row.note = std::string("the remembered pick is of another ") +
               (build ? "build, '" : "machine, '") + (build ? known->build : known->machine) +
               "', and not valid";
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
  // Arrays on the CPU would make the copies to the GPU part of every time.
  std::vector<NDArray> arrays(call.arrays.begin(), call.arrays.end());
  int64_t copied = 0;
  if (on_gpu() && call.device.is_cpu()) {
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

void MultiKernel::Impl::log(const PickRow& row) const {
  HEDDLE_LOG_AT("picks", 1,
                row.kernel + " " + row.shapes + ": " + row.picked + ", " + to_string(row.reason) +
                    (row.note.empty() ? "" : " (" + row.note + ")"));
  const std::string path = options.log.empty() ? variable("HEDDLE_PICK_LOG") : options.log;
  if (path.empty()) return;
  try {
    LineLog(path, "log of picks").append(row.to_json().dump());
  } catch (const Error& e) {
    say(e.message);
  }
}

}  // namespace heddle
