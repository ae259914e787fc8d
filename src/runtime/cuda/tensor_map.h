// Tensor maps: the description of a tensor for TMA (CUDA driver API, "Tensor Map Object
// Management").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/cuda/cuda_program.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {

/// The largest number of maps of a launch.
inline constexpr std::size_t kMostMaps = 16;

/// Throws an internal error where TMA accepts no such map: for more than five dimensions, a box of
/// more than 256 rows, or rows of the tensor that are no multiple of 16 bytes.
void check_map(const TensorMap& map, const std::string& kernel);

/// The map of a tensor at `address`, in a call with these sizes. The driver encodes it on the host,
/// without the GPU. Throws a Runtime error where the driver is older than CUDA 12.0.
api::TensorMapBytes encode(DeviceState& device, const TensorMap& map, void* address,
                           std::span<const std::int64_t> sizes);

}  // namespace heddle::cuda
