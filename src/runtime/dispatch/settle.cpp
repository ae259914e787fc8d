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
#include "support/stack_array.h"

namespace heddle {
namespace {

constexpr long kMostRows = 8192;

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

Kernel MultiKernel::Impl::made(size_t variant) {
  const std::lock_guard lock(compile_mutex);
  return variants[variant].kernel;
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

int MultiKernel::Impl::picked(std::span<const NDArray> arrays) const {
  StackArray<int64_t, 24> sizes(free.size());
  for (size_t i = 0; i < free.size(); ++i) {
    const auto [arg, dim] = free[i];
    if (arg >= arrays.size() || dim >= arrays[arg].shape().size()) return -1;
    sizes[i] = arrays[arg].shape()[dim];
  }
  return selector.picked(sizes.span());
}

void MultiKernel::Impl::run(size_t variant, std::span<const NDArray> arrays) const {
  const VariantState& v = variants[variant];
  if (!v.variant.function) return v.kernel.call(arrays);
  // The look-up compared the free extents only.
  if (free.empty()) {
    check_arguments(facts.name, args, arrays, facts.on_gpu);
  } else {
    check_arguments(facts.name, args_at(arrays), arrays, facts.on_gpu);
  }
  v.variant.function(arrays);
}

PickRow MultiKernel::Impl::settle(std::span<const NDArray> arrays, size_t* variant) {
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
  call.forced = selector.forced();
  // A call that a variant makes, or a thread that a variant waits for, must not wait for the pick.
  std::unique_lock lock(settling, std::defer_lock);
  const bool nested = settler.load() == std::this_thread::get_id();
  if (nested || !lock.try_lock_for(std::chrono::duration<double>(2 * options.seconds + 30))) {
    PickRow row;
    row.picked = variants[call.applicable[0]].variant.name;
    row.note = nested ? "called by a variant of its own" : "another thread did not end its pick";
    if (!variants[call.applicable[0]].variant.function) compiled(call.applicable[0]);
    if (variant != nullptr) *variant = call.applicable[0];
    return row;
  }
  settler = std::this_thread::get_id();
  const auto done = [this](void*) { settler = std::thread::id(); };
  const std::unique_ptr<Impl, decltype(done)> at_end(this, done);
  return settle_locked(call, variant);
}

PickRow MultiKernel::Impl::settle_locked(const Call& call, size_t* variant) {
  {
    const std::lock_guard guard(rows_mutex);
    if (const int known = picked(call.arrays); known >= 0) {
      if (variant != nullptr) *variant = static_cast<size_t>(known);
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
  const auto chosen = static_cast<size_t>(pick);
  row.picked = variants[chosen].variant.name;
  if (!variants[chosen].variant.function) compiled(chosen);
  if (variant != nullptr) *variant = chosen;
  if (!captured || row.reason != PickReason::Static) keep(call, row, chosen);
  log(row);
  return row;
}

void MultiKernel::Impl::keep(const Call& call, const PickRow& row, size_t variant) {
  {
    const std::lock_guard guard(rows_mutex);
    if (selector.forced() != call.forced) return;  // it was forced while this was picked
    std::vector<int64_t> sizes;
    for (const auto& [arg, dim] : free) sizes.push_back(call.arrays[arg].shape()[dim]);
    selector.pick(sizes, static_cast<int>(variant));
    // Those of all picks that the selector has are among the last.
    if (std::ssize(rows) == kMostRows) rows.erase(rows.begin(), rows.begin() + kMostRows / 2);
    rows.push_back(row);
  }
  // Constants that the other variants prepared are released, because they are not expected to be
  // needed.
  if (row.reason != PickReason::Measured) return;
  for (const size_t v : call.applicable) {
    if (const Kernel other = v == variant ? Kernel() : made(v)) other.refresh();
  }
}

void MultiKernel::Impl::log(const PickRow& row) const {
  log_pick(row, options.log, [this](const std::string& text) { say(text); });
}

}  // namespace heddle
