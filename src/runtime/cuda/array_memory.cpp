#include "runtime/cuda/array_memory.h"

#include <vector>

#include "runtime/cuda/capture.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {
namespace {

api::DevicePtr address(const void* data) {
  return static_cast<api::DevicePtr>(reinterpret_cast<std::uintptr_t>(data));
}

}  // namespace

void* allocate_array(std::size_t bytes, int device) {
  DeviceState& d = device_state(device);
  d.enter();
  return reinterpret_cast<void*>(
      static_cast<std::uintptr_t>(d.pool.allocate(d, bytes, current_stream(device))));
}

void free_array(void* block, int device) noexcept {
  if (DeviceState* d = find_device_state(device)) d->pool.free(address(block));
}

void start_copy(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes) {
  if (bytes == 0) return;
  DeviceState& d = device_state(to_device.is_cuda() ? to_device.index : from_device.index);
  d.enter();
  const api::StreamHandle stream = current_stream(d.index);
  if (from_device.is_cpu()) {
    refuse_in_capture(d.index, "a copy from the CPU");
    d.check(d.api->memcpy_htod_async(address(to), from, bytes, stream), "a copy to the GPU");
  } else if (to_device.is_cpu()) {
    refuse_in_capture(d.index, "a copy to the CPU");
    d.check(d.api->memcpy_dtoh_async(to, address(from), bytes, stream), "a copy from the GPU");
  } else if (to_device == from_device) {
    d.check(d.api->memcpy_dtod_async(address(to), address(from), bytes, stream),
            "a copy within the GPU");
  } else {
    DeviceState& source = device_state(from_device.index);
    // The streams of the source and of the target are not ordered with each other.
    source.enter();
    source.check(source.api->stream_synchronize(current_stream(source.index)),
                 "cuStreamSynchronize");
    d.enter();
    d.check(d.api->memcpy_peer_async(address(to), d.context, address(from), source.context, bytes,
                                     stream),
            "a copy from GPU to GPU");
  }
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes) {
  start_copy(to, to_device, from, from_device, bytes);
  if (bytes == 0 || to_device == from_device) return;
  DeviceState& d = device_state(to_device.is_cuda() ? to_device.index : from_device.index);
  d.check(d.api->stream_synchronize(current_stream(d.index)), "a copy");
}

void fill_elements(void* data, int device, std::uint64_t bits, int element_bytes,
                   std::size_t count) {
  if (count == 0) return;
  DeviceState& d = device_state(device);
  d.enter();
  const api::StreamHandle stream = current_stream(device);
  api::Result result = api::kSuccess;
  if (element_bytes == 1) {
    result = d.api->memset_d8_async(address(data), static_cast<unsigned char>(bits), count, stream);
  } else if (element_bytes == 2) {
    result =
        d.api->memset_d16_async(address(data), static_cast<unsigned short>(bits), count, stream);
  } else if (element_bytes == 4 || bits >> 32 == (bits & 0xffffffffU)) {
    const std::size_t words = count * static_cast<std::size_t>(element_bytes) / 4;
    result = d.api->memset_d32_async(address(data), static_cast<unsigned>(bits), words, stream);
  } else {
    refuse_in_capture(device, "a fill with this value of 8 bytes");
    const std::vector<std::uint64_t> values(count, bits);
    copy_bytes(data, Device::cuda(device), values.data(), Device::cpu(), count * sizeof(bits));
  }
  d.check(result, "a fill");
}

}  // namespace heddle::cuda
