// One kernel prepared for launches: attributes are set once, and a launch is one call of the
// driver.
#pragma once

#include <array>
#include <string>

#include "runtime/cuda/state.h"

namespace heddle::cuda {

class Launcher {
 public:
  Launcher() = default;
  /// Requests the shared memory and the cluster. Throws when the device does not have them. The
  /// device must be entered. `name` is interned. A kernel that `overlaps` may begin before the work
  /// before it has ended, where driver and device can do that.
  Launcher(DeviceState& device, api::FunctionHandle function, const std::string* name,
           unsigned dynamic_smem, unsigned cluster, bool overlaps);

  void launch(const std::array<unsigned, 3>& grid, const std::array<unsigned, 3>& block,
              void** params, api::StreamHandle stream) const {
    device_->last_kernel.store(name_, std::memory_order_relaxed);
    const api::Result result =
        cluster_ == 1 && !overlaps_
            ? device_->api->launch_kernel(function_, grid[0], grid[1], grid[2], block[0], block[1],
                                          block[2], dynamic_smem_, stream, params, nullptr)
            : launch_with_attributes(grid, block, params, stream);
    if (result != api::kSuccess) [[unlikely]]
      fail(result, grid, block);
  }

  api::FunctionHandle function() const { return function_; }
  /// The node of a graph for such a launch, without its parameters.
  api::KernelNodeParams node(const std::array<unsigned, 3>& grid,
                             const std::array<unsigned, 3>& block) const;

 private:
  api::Result launch_with_attributes(const std::array<unsigned, 3>& grid,
                                     const std::array<unsigned, 3>& block, void** params,
                                     api::StreamHandle stream) const;
  [[noreturn]] void fail(api::Result result, const std::array<unsigned, 3>& grid,
                         const std::array<unsigned, 3>& block) const;

  DeviceState* device_ = nullptr;
  api::FunctionHandle function_ = nullptr;
  const std::string* name_ = nullptr;
  unsigned dynamic_smem_ = 0;
  unsigned cluster_ = 1;
  bool overlaps_ = false;
};

}  // namespace heddle::cuda
