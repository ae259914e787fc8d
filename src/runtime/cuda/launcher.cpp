#include "runtime/cuda/launcher.h"

#include <algorithm>

#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

constexpr unsigned kSmemWithoutAsking = 48U << 10;
constexpr unsigned kPortableCluster = 8;
// CUDA 12.3, the first version whose graphs keep dependencies of this kind.
constexpr int kLeastDriverOfOverlaps = 12030;

bool can_overlap(const DeviceState& device) {
  int version = 0;
  return device.info.major >= 9 && device.api->driver_get_version(&version) == api::kSuccess &&
         version >= kLeastDriverOfOverlaps;
}

std::string text_of(const std::array<unsigned, 3>& extents) {
  return std::to_string(extents[0]) + "x" + std::to_string(extents[1]) + "x" +
         std::to_string(extents[2]);
}

}  // namespace

Launcher::Launcher(DeviceState& device, api::FunctionHandle function, const std::string* name,
                   unsigned dynamic_smem, unsigned cluster, bool overlaps)
    : device_(&device),
      function_(function),
      name_(name),
      dynamic_smem_(dynamic_smem),
      cluster_(cluster),
      overlaps_(overlaps && can_overlap(device)) {
  if (cluster_ < 1 || (cluster_ > 1 && device.info.major < 9)) {
    throw_runtime_error("kernel '" + *name + "' wants clusters of " + std::to_string(cluster_) +
                        " blocks, and " + device.info.name + " has none (sm_90 has)");
  }
  if (dynamic_smem_ > kSmemWithoutAsking) {
    if (dynamic_smem_ > static_cast<unsigned>(device.info.smem_per_block_optin)) {
      throw_runtime_error("kernel '" + *name + "' needs " + std::to_string(dynamic_smem_) +
                          " bytes of shared memory, and a block of " + device.info.name + " has " +
                          std::to_string(device.info.smem_per_block_optin));
    }
    device.check(device.api->func_set_attribute(function, api::kFunctionMaxDynamicShared,
                                                static_cast<int>(dynamic_smem_)),
                 "asking for shared memory", name);
  }
  if (cluster_ > kPortableCluster) {
    device.check(device.api->func_set_attribute(function, api::kFunctionNonPortableCluster, 1),
                 "asking for clusters above 8", name);
  }
}

api::Result Launcher::launch_with_attributes(const std::array<unsigned, 3>& grid,
                                             const std::array<unsigned, 3>& block, void** params,
                                             api::StreamHandle stream) const {
  std::array<api::LaunchAttribute, 2> attributes;
  unsigned count = 0;
  if (cluster_ > 1) {
    attributes[count].id = api::kLaunchClusterDimension;
    attributes[count].cluster[0] = cluster_;
    attributes[count].cluster[1] = attributes[count].cluster[2] = 1;
    ++count;
  }
  if (overlaps_) {
    attributes[count].id = api::kLaunchOverlaps;
    attributes[count++].overlaps = 1;
  }
  api::LaunchConfig config;
  for (std::size_t i = 0; i < 3; ++i) {
    config.grid[i] = grid[i];
    config.block[i] = block[i];
  }
  config.dynamic_smem = dynamic_smem_;
  config.stream = stream;
  config.attributes = attributes.data();
  config.attribute_count = count;
  return device_->api->launch_kernel_ex(&config, function_, params, nullptr);
}

api::KernelNodeParams Launcher::node(const std::array<unsigned, 3>& grid,
                                     const std::array<unsigned, 3>& block) const {
  api::KernelNodeParams made;
  made.function = function_;
  made.dynamic_smem = dynamic_smem_;
  std::copy(grid.begin(), grid.end(), made.grid);
  std::copy(block.begin(), block.end(), made.block);
  return made;
}

void Launcher::fail(api::Result result, const std::array<unsigned, 3>& grid,
                    const std::array<unsigned, 3>& block) const {
  device_->fail(result,
                "the launch of " + text_of(grid) + " blocks of " + text_of(block) +
                    " threads with " + std::to_string(dynamic_smem_) +
                    " bytes of dynamic shared memory",
                name_);
}

}  // namespace heddle::cuda
