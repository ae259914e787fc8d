// Memory of the CPU that a GPU reads and writes by itself (page-locked). Copies from and to it run in a
// stream beside the host, which is not the case with other memory.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "heddle/runtime/ndarray.h"

namespace heddle::cuda {

/// Move-only.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Throws an error for want of memory.
  PinnedMemory(std::size_t bytes, int device);
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~PinnedMemory();

  void* data() const { return data_; }  ///< null without memory

 private:
  int device_ = 0;
  void* data_ = nullptr;
};

/// Arrays of one shape in pinned memory, which is used again when the last handle of an array is gone.
class PinnedArrays {
 public:
  /// So many are in pinned memory at a time.
  PinnedArrays(Extents shape, DataType dtype, int device, std::size_t most);

  /// An array on the CPU with undefined contents, which may outlive this object. In ordinary memory
  /// while callers hold `most` others.
  NDArray take();

 private:
  struct Shared;
  struct Lease;
  std::shared_ptr<Shared> shared_;
};

}  // namespace heddle::cuda
