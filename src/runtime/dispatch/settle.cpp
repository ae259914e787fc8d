// How a multi-kernel picks a variant for a call: the possible reasons in order, and the effects of
// a pick. chosen_pick.cpp has the picks of users, measured_pick.cpp those by measurement.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "heddle/support/error.h"
#include "runtime/cuda/capture.h"
#include "runtime/dispatch/multi_kernel_impl.h"
#include "runtime/dispatch/pick_log.h"
#include "runtime/kernel/check_arguments.h"

namespace heddle {
namespace {

bool takes(const KernelVariant& v, std::span<const NDArray> arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    for (size_t d = 0; d < v.args[i].shape.size(); ++d) {
      const int64_t want = v.args[i].shape[d];
      if (want >= 0 && want != arrays[i].shape()[d]) return false;
    }
  }
  return true;
}

bool in_capture(Device device) {
  return device.is_cuda() && cuda::capture_of(device.index) != nullptr;
}

}  // namespace

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

std::vector<KernelArg> MultiKernel::Impl::args_at(std::span<const NDArray> arrays) const {
  std::vector<KernelArg> exact = args;
  for (size_t i = 0; i < exact.size() && i < arrays.size(); ++i) {
    KernelArg& a = exact[i];
    const bool known = arrays[i].defined() && arrays[i].shape().size() == a.shape.size();
    for (size_t d = 0; d < a.shape.size(); ++d) {
      if (a.shape[d] < 0 && known) a.shape[d] = arrays[i].shape()[d];
    }
  }
  return exact;
}

void MultiKernel::Impl::call_function(const Settled& settled,
                                      std::span<const NDArray> arrays) const {
  // The look-up in the table compared the free extents only.
  if (settled.extents.empty()) {
    check_arguments(facts.name, args, arrays, facts.on_gpu);
  } else {
    check_arguments(facts.name, args_at(arrays), arrays, facts.on_gpu);
  }
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
  call.args = args_at(arrays);
  call.device = check_arguments(facts.name, call.args, arrays, facts.on_gpu);
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
  // A call that a variant makes, or a thread that a variant waits for, must not wait for the pick.
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
  // Constants that the other variants prepared are released, because they are not expected to be
  // needed.
  for (const size_t v : call.applicable) {
    if (v != settled.variant && row.reason == PickReason::Measured && variants[v].kernel) {
      variants[v].kernel.refresh();
    }
  }
  log(row);
}

void MultiKernel::Impl::log(const PickRow& row) const {
  log_pick(row, options.log, [this](const std::string& text) { say(text); });
}

}  // namespace heddle
