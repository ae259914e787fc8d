// Device memory that is kept for later arrays, because cuMemAlloc and cuMemFree wait for the
// device.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>

#include "heddle/runtime/cuda.h"
#include "runtime/cuda/driver_api.h"

namespace heddle::cuda {

struct DeviceState;

/// Blocks are returned to the stream for which they were allocated. Work of the next owner
/// therefore follows that of the previous one in the queue. Thread-safe. The device must be
/// entered.
class MemoryPool {
 public:
  /// At least 256-byte aligned. Before it fails for lack of memory it gives back all cached blocks
  /// of all streams.
  api::DevicePtr allocate(DeviceState& device, std::size_t bytes, api::StreamHandle stream);
  void free(api::DevicePtr block);
  /// Gives cached blocks back to the driver; the device must have been waited for.
  void release(DeviceState& device);
  /// The stream was destroyed and its work is done, so its blocks may be used for any stream.
  void forget_stream(api::StreamHandle stream);
  MemoryStats stats() const;

 private:
  struct Block {
    std::size_t capacity = 0;
    api::StreamHandle stream = nullptr;
  };
  using Free = std::multimap<std::size_t, api::DevicePtr>;  // by capacity

  api::DevicePtr take(std::size_t capacity, api::StreamHandle stream);
  void release_locked(DeviceState& device);

  mutable std::mutex mutex_;
  std::map<api::StreamHandle, Free> free_;
  std::unordered_map<api::DevicePtr, Block> used_;
  MemoryStats stats_;
};

}  // namespace heddle::cuda
