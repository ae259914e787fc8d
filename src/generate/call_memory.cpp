#include "generate/call_memory.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda/array_memory.h"

namespace heddle::generate {
namespace {

/// The bytes of an array with the alignment of arrays on a GPU.
int64_t room_for(const Extents& shape, DataType dtype) {
  constexpr int64_t kAlignment = 512;
  int64_t bytes = dtype.bytes();
  for (const int64_t extent : shape) bytes *= extent;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

CallMemory::CallMemory(std::vector<Part> parts, Extents result, Device device)
    : parts_(std::move(parts)),
      device_(device),
      begin_(parts_.size()),
      results_(std::move(result), f32, device.index, kResults),
      end_(device.index) {
  int64_t end = 0, written = 0;
  for (const Written when : {Written::EachCall, Written::Sometimes, Written::Never}) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].written != when) continue;
      begin_[i] = end;
      end += room_for(parts_[i].most, parts_[i].dtype);
    }
    if (when == Written::Sometimes) written = end;
  }
  gpu_ = NDArray::zeros({end}, u8, device);
  cpu_ = cuda::PinnedMemory(static_cast<size_t>(written), device.index);
}

NDArray CallMemory::at(int64_t begin, size_t part, Extents shape) const {
  return NDArray::wrap(static_cast<char*>(gpu_.data()) + begin, std::move(shape),
                       parts_[part].dtype, device_);
}

std::vector<NDArray> CallMemory::arrays(std::vector<Extents> shapes) const {
  std::vector<NDArray> all;
  int64_t next = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    int64_t begin = begin_[i];
    if (parts_[i].written == Written::EachCall) {
      begin = next;
      next += room_for(shapes[i], parts_[i].dtype);
    }
    all.push_back(at(begin, i, std::move(shapes[i])));
  }
  return all;
}

int64_t CallMemory::offset_of(const NDArray& array) const {
  return static_cast<const char*>(array.data()) - static_cast<const char*>(gpu_.data());
}

NDArray CallMemory::on_cpu(const NDArray& array) {
  wait();
  return NDArray::wrap(static_cast<char*>(cpu_.data()) + offset_of(array), array.shape(),
                       array.dtype());
}

void CallMemory::copy(int64_t begin, int64_t end) const {
  cuda::start_copy(static_cast<char*>(gpu_.data()) + begin, device_,
                   static_cast<const char*>(cpu_.data()) + begin, Device::cpu(),
                   static_cast<size_t>(end - begin));
}

void CallMemory::send(const NDArray& array) const {
  copy(offset_of(array), offset_of(array) + array.bytes());
}

void CallMemory::send_written(const std::vector<NDArray>& arrays) const {
  int64_t end = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].written == Written::EachCall)
      end = std::max(end, offset_of(arrays[i]) + arrays[i].bytes());
  }
  copy(0, end);
}

NDArray CallMemory::receive(const NDArray& from) {
  NDArray result = results_.take();
  cuda::start_copy(result.data(), Device::cpu(), from.data(), device_,
                   static_cast<size_t>(from.bytes()));
  return result;
}

void CallMemory::mark() {
  end_.record();
  pending_ = true;
}

void CallMemory::wait() {
  if (pending_) end_.synchronize();
  pending_ = false;
}

}  // namespace heddle::generate
