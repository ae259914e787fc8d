#include "runtime/cuda/pinned_memory.h"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/state.h"

namespace heddle::cuda {

PinnedMemory::PinnedMemory(std::size_t bytes, int device) : device_(device) {
  DeviceState& d = device_state(device);
  d.enter();
  const api::Result made = d.api->mem_alloc_host(&data_, std::max<std::size_t>(bytes, 1));
  if (made != api::kSuccess) d.fail(made, "cuMemAllocHost of " + std::to_string(bytes) + " bytes");
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  DeviceState* d = find_device_state(device_);
  if (d != nullptr && d->try_enter()) d->api->mem_free_host(data_);
}

struct PinnedArrays::Shared {
  Extents shape;
  DataType dtype;
  int device = 0;
  std::size_t most = 0;

  std::mutex mutex;
  std::size_t made = 0;
  std::vector<PinnedMemory> free;
};

/// What the last handle of an array gives back.
struct PinnedArrays::Lease {
  PinnedMemory memory;
  std::shared_ptr<Shared> from;
  DLManagedTensor* view = nullptr;  ///< of the memory
  DLManagedTensor tensor = {};      ///< the same, which ends this lease

  static void end(DLManagedTensor* tensor) {
    const std::unique_ptr<Lease> lease(static_cast<Lease*>(tensor->manager_ctx));
    lease->view->deleter(lease->view);
    const std::lock_guard lock(lease->from->mutex);
    lease->from->free.push_back(std::move(lease->memory));
  }
};

PinnedArrays::PinnedArrays(Extents shape, DataType dtype, int device, std::size_t most)
    : shared_(std::make_shared<Shared>()) {
  shared_->shape = std::move(shape);
  shared_->dtype = dtype;
  shared_->device = device;
  shared_->most = most;
  shared_->free.reserve(most);  // what ends a lease must not throw
}

NDArray PinnedArrays::take() {
  Shared& all = *shared_;
  auto lease = std::make_unique<Lease>();
  {
    const std::lock_guard lock(all.mutex);
    if (!all.free.empty()) {
      lease->memory = std::move(all.free.back());
      all.free.pop_back();
    } else if (all.made == all.most) {
      return NDArray::empty(all.shape, all.dtype);
    } else {
      auto bytes = static_cast<std::size_t>(all.dtype.bytes());
      for (const std::int64_t extent : all.shape) bytes *= static_cast<std::size_t>(extent);
      lease->memory = PinnedMemory(bytes, all.device);
      ++all.made;
    }
  }
  lease->from = shared_;
  lease->view = NDArray::wrap(lease->memory.data(), all.shape, all.dtype).to_dlpack();
  lease->tensor = *lease->view;
  lease->tensor.manager_ctx = lease.get();
  lease->tensor.deleter = Lease::end;
  return NDArray::from_dlpack(&lease.release()->tensor);
}

}  // namespace heddle::cuda
