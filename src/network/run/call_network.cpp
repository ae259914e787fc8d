// NetworkKernel as users see it: the program of a network.
#include "heddle/support/error.h"
#include "network/run/network_kernel_impl.h"

namespace heddle {

std::vector<double> NetworkKernel::Impl::by_node(std::span<const double> of_steps) const {
  size_t count = 0;
  for (const std::vector<int>& of_step : nodes) count += of_step.size();
  std::vector<double> seconds(count);
  for (size_t s = 0; s < nodes.size(); ++s) {
    for (const int n : nodes[s])
      seconds[static_cast<size_t>(n)] = of_steps[s] / static_cast<double>(nodes[s].size());
  }
  return seconds;
}

NetworkKernel::Impl& NetworkKernel::impl() const {
  if (!impl_) throw_runtime_error("this network was never built");
  return *impl_;
}

void NetworkKernel::call(std::span<const NDArray> arrays) const { impl().program.call(arrays); }
void NetworkKernel::expect(std::span<const NDArray> arrays) const { impl().program.expect(arrays); }
void NetworkKernel::prepare(std::span<const NDArray> arrays) const {
  impl().program.prepare(arrays);
}
void NetworkKernel::prepare() const { impl().program.prepare(); }
Profile NetworkKernel::profile(const std::vector<NDArray>& arrays, double seconds) const {
  return impl().program.profile(arrays, seconds);
}
void NetworkKernel::refresh() const { impl().program.refresh(); }

const std::vector<KernelArg>& NetworkKernel::args() const { return impl().program.parts().args; }
const std::vector<size_t>& NetworkKernel::updated() const { return impl().program.parts().updated; }
const std::vector<KernelSize>& NetworkKernel::sizes() const { return impl().program.parts().sizes; }
const NetworkBuildReport& NetworkKernel::build_report() const { return impl().report; }
int64_t NetworkKernel::workspace_bytes() const { return impl().program.parts().arena_bytes; }

}  // namespace heddle
