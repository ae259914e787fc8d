// Copies some elements of an array on a GPU to the CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::measuring {

/// A kernel that collects elements, compiled at first use. Where there is no NVRTC, whole arrays
/// are copied in its place.
class DeviceGather {
 public:
  explicit DeviceGather(int device) : device_(device) {}

  /// The elements of `from`, an array on the device, at `positions` (in row-major order). Waits for
  /// the work on the current stream.
  NDArray operator()(const NDArray& from, std::span<const int64_t> positions);

 private:
  bool ready();

  const int device_;
  bool asked_ = false;
  std::optional<cuda::Module> module_;
};

/// The CUDA C++ text of the kernel `gather(from, positions, to, bytes of an element, count)`.
const char* gather_text();

}  // namespace heddle::measuring
