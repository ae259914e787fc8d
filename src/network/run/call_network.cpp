// The calls of a NetworkKernel.
#include <algorithm>

#include "heddle/support/error.h"
#include "network/run/network_kernel_impl.h"
#include "runtime/kernel/check_arguments.h"
#include "runtime/kernel/profile_steps.h"

namespace heddle {
namespace {

constexpr const char* kName = "network";  // the name in error messages

}  // namespace

std::vector<int64_t> NetworkKernel::Impl::sizes_of(std::span<const NDArray> arrays) const {
  std::vector<int64_t> values(sizes.size());
  if (!sizes.empty())
    read_sizes(kName, sizes, args, arrays, [&](size_t i, int64_t value) { values[i] = value; });
  return values;
}

void NetworkKernel::Impl::set_sizes(Frame& frame, std::vector<int64_t> values) const {
  for (const network::StepPlan::Between& b : plan.between) {
    if (b.symbolic.empty()) continue;
    std::vector<int64_t> shape = b.shape;
    set_extents(shape, b.symbolic, values);
    frame.arrays[b.step][b.position] =
        NDArray::wrap(static_cast<char*>(frame.arena.data()) + b.offset, std::move(shape), b.dtype,
                      on_gpu ? Device::cuda() : Device::cpu());
  }
  frame.sizes = std::move(values);
}

NetworkKernel::Impl& NetworkKernel::impl() const {
  if (!impl_) throw_runtime_error("this network was never built");
  return *impl_;
}

void NetworkKernel::call(std::span<const NDArray> arrays) const {
  check_arguments(kName, impl().args, arrays, impl().on_gpu != nullptr);
  check_apart(kName, impl_->args, arrays, impl_->bound);
  const std::vector<int64_t> sizes = impl_->sizes_of(arrays);
  const auto run = [&](std::span<const NDArray> given) { Impl::Call(*impl_, given, sizes).run(); };
  impl_->on_gpu ? impl_->on_gpu->call(impl_->args, arrays, run) : run(arrays);
}

void NetworkKernel::prepare(std::span<const NDArray> arrays) const {
  const Device device = check_constants(kName, impl().args, arrays, impl_->on_gpu != nullptr);
  const bool any = std::any_of(impl_->args.begin(), impl_->args.end(),
                               [](const KernelArg& a) { return a.constant; });
  if (impl_->on_gpu && any && device.is_cpu()) {
    throw_user_error("a network on a GPU prepares constants that are there", {},
                     "pass to_device(Device::cuda()), or declare them with constant(array)");
  }
  const Impl::Call call(*impl_, arrays, {});
  for (size_t i = 0; i < impl_->steps.size(); ++i) {
    for (const Kernel& kernel : impl_->steps[i].kernels) kernel.prepare(call.arrays()[i]);
  }
}

void NetworkKernel::prepare() const {
  for (const KernelArg& arg : impl().args) {
    if (!arg.constant) continue;
    throw_user_error("the network does not have the values of its constant '" + arg.name + "'", {},
                     "pass the arrays to prepare, or declare it with constant(array)");
  }
  prepare(std::vector<NDArray>(impl_->args.size()));
}

Profile NetworkKernel::profile(const std::vector<NDArray>& arrays, double seconds) const {
  check_arguments(kName, impl().args, arrays, impl_->on_gpu != nullptr);
  std::vector<NDArray> used = arrays;
  if (impl_->on_gpu) {
    for (NDArray& a : used) a = a.to_device(Device::cuda());
  }
  const Impl::Call frame(*impl_, used, impl_->sizes_of(used));
  std::vector<ProfiledStep> steps;
  for (size_t i = 0; i < impl_->steps.size(); ++i) {
    steps.push_back({impl_->names[i], impl_->steps[i].at(frame.sizes()), frame.arrays()[i]});
  }
  const Profile profile = profile_steps(steps, [&] { call(used); }, seconds);
  for (size_t i = 0; i < used.size(); ++i) {
    if (args()[i].output && used[i].data() != arrays[i].data()) arrays[i].copy_from(used[i]);
  }
  return profile;
}

void NetworkKernel::refresh() const {
  if (impl().on_gpu) impl_->on_gpu->forget();
  for (const network::Step& step : impl_->steps) {
    for (const Kernel& kernel : step.kernels) kernel.refresh();
  }
  if (!impl_->on_gpu) return;
  const std::lock_guard lock(impl_->mutex);
  ++impl_->refreshes;
  impl_->free.clear();
  impl_->bound_on_gpu.clear();
}

const std::vector<KernelArg>& NetworkKernel::args() const { return impl().args; }
const std::vector<KernelSize>& NetworkKernel::sizes() const { return impl().sizes; }
const NetworkBuildReport& NetworkKernel::build_report() const { return impl().report; }
int64_t NetworkKernel::workspace_bytes() const { return impl().plan.arena_bytes; }

}  // namespace heddle
