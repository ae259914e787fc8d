#include "runtime/cuda/memory_pool.h"

#include <algorithm>

#include "runtime/cuda/state.h"

namespace heddle::cuda {
namespace {

// Sizes are rounded so that arrays of similar size share blocks: small ones to multiples that suit
// vector loads and sectors, large ones to the driver's pages of 2 MiB.
constexpr std::size_t kSmall = std::size_t{1} << 20;
constexpr std::size_t kSmallStep = 512;
constexpr std::size_t kLargeStep = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
  const std::size_t step = bytes < kSmall ? kSmallStep : kLargeStep;
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

api::DevicePtr MemoryPool::take(std::size_t capacity, api::StreamHandle stream) {
  const auto of_stream = free_.find(stream);
  if (of_stream == free_.end()) return 0;
  const auto block = of_stream->second.lower_bound(capacity);
  // Up to an eighth of a block may be unused, because an allocation would have to wait for the
  // device.
  if (block == of_stream->second.end() || block->first > capacity + capacity / 8) return 0;
  const auto [found, address] = *block;
  of_stream->second.erase(block);
  used_[address] = {found, stream};
  stats_.cached_bytes -= static_cast<std::int64_t>(found);
  return address;
}

api::DevicePtr MemoryPool::allocate(DeviceState& device, std::size_t bytes,
                                    api::StreamHandle stream) {
  if (bytes > PTRDIFF_MAX / 2) device.fail(api::kOutOfMemory, "an allocation beyond all memory");
  const std::size_t capacity = rounded(bytes);
  const std::lock_guard lock(mutex_);
  api::DevicePtr block = take(capacity, stream);
  if (block == 0) {
    api::Result result = device.api->mem_alloc(&block, capacity);
    if (result == api::kOutOfMemory && stats_.cached_bytes > 0) {
      // Work that is in a stream may still use cached blocks.
      device.check(device.api->ctx_synchronize(), "cuCtxSynchronize");
      release_locked(device);
      result = device.api->mem_alloc(&block, capacity);
    }
    if (result != api::kSuccess) {
      device.fail(result, "cuMemAlloc of " + std::to_string(capacity) + " bytes (" +
                              std::to_string(stats_.used_bytes) + " are in use by arrays)");
    }
    used_[block] = {capacity, stream};
  }
  stats_.used_bytes += static_cast<std::int64_t>(used_[block].capacity);
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.used_bytes);
  return block;
}

void MemoryPool::free(api::DevicePtr block) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(block);
  if (found == used_.end()) return;
  const auto bytes = static_cast<std::int64_t>(found->second.capacity);
  free_[found->second.stream].emplace(found->second.capacity, block);
  stats_.used_bytes -= bytes;
  stats_.cached_bytes += bytes;
  used_.erase(found);
}

void MemoryPool::release_locked(DeviceState& device) {
  for (auto& [stream, blocks] : free_) {
    for (const auto& [capacity, block] : blocks) device.api->mem_free(block);
  }
  free_.clear();
  stats_.cached_bytes = 0;
}

void MemoryPool::release(DeviceState& device) {
  const std::lock_guard lock(mutex_);
  release_locked(device);
}

void MemoryPool::forget_stream(api::StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, block] : used_) {
    if (block.stream == stream) block.stream = nullptr;
  }
  const auto found = free_.find(stream);
  if (found == free_.end() || stream == nullptr) return;
  Free blocks = std::move(found->second);
  free_.erase(found);
  free_[nullptr].merge(blocks);
}

MemoryStats MemoryPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace heddle::cuda
