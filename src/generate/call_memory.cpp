#include "generate/call_memory.h"

#include <algorithm>
#include <utility>

#include "heddle/support/error.h"
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

CallMemory::CallMemory(std::vector<Part> parts, const Extents& result, Device device)
    : parts_(std::move(parts)),
      device_(device),
      begin_(parts_.size()),
      to_gpu_(device.index),
      to_cpu_(device.index),
      results_(result, f32, device.index, kResults) {
  int64_t end = 0, written = 0;
  for (const Written when : {Written::EachCall, Written::Sometimes, Written::Never}) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].written != when) continue;
      begin_[i] = end;
      end += room_for(parts_[i].most, parts_[i].dtype);
    }
    if (when == Written::EachCall) {
      of_turn_ = end;
      end *= static_cast<int64_t>(kTurns);
    }
    if (when == Written::Sometimes) written = end;
  }
  gpu_ = NDArray::zeros({end}, u8, device);
  const int64_t tokens = result[0] * i64.bytes();
  for (size_t t = 0; t < kTurns; ++t) {
    turns_.push_back({cuda::PinnedMemory(static_cast<size_t>(written), device.index),
                      cuda::PinnedMemory(static_cast<size_t>(tokens), device.index),
                      cuda::Event(device.index), cuda::Event(device.index),
                      cuda::Event(device.index)});
  }
}

CallMemory::~CallMemory() {
  for (size_t ago = 0; ago < kTurns; ++ago) {
    try {
      wait(static_cast<int>(ago));
    } catch (const Error&) {
      // The context is lost: no copy runs any more, and every later call of the GPU tells why.
    }
  }
}

NDArray CallMemory::at(int64_t begin, size_t part, Extents shape) const {
  return NDArray::wrap(static_cast<char*>(gpu_.data()) + begin, std::move(shape),
                       parts_[part].dtype, device_);
}

std::vector<NDArray> CallMemory::arrays(std::vector<Extents> shapes, bool next) const {
  std::vector<NDArray> all;
  const size_t turn = (turn_ + (next ? 1 : 0)) % kTurns;
  int64_t free = static_cast<int64_t>(turn) * of_turn_;
  for (size_t i = 0; i < parts_.size(); ++i) {
    int64_t begin = begin_[i];
    if (parts_[i].written == Written::EachCall) {
      begin = free;
      free += room_for(shapes[i], parts_[i].dtype);
    }
    all.push_back(at(begin, i, std::move(shapes[i])));
  }
  return all;
}

int64_t CallMemory::offset_of(const NDArray& array) const {
  return static_cast<const char*>(array.data()) - static_cast<const char*>(gpu_.data());
}

void CallMemory::begin() {
  turn_ = (turn_ + 1) % kTurns;
  wait();
}

NDArray CallMemory::on_cpu(const NDArray& array) const {
  return NDArray::wrap(static_cast<char*>(turns_[turn_].written.data()) + offset_of(array),
                       array.shape(), array.dtype());
}

void CallMemory::copy(int64_t begin, int64_t end) const {
  cuda::start_copy(static_cast<char*>(gpu_.data()) + begin, device_,
                   static_cast<const char*>(turns_[turn_].written.data()) + begin, Device::cpu(),
                   static_cast<size_t>(end - begin));
}

void CallMemory::send(const NDArray& array) const {
  copy(offset_of(array), offset_of(array) + array.bytes());
}

void CallMemory::send_written(const std::vector<NDArray>& arrays, bool beside) {
  const int64_t begin = static_cast<int64_t>(turn_) * of_turn_;
  int64_t end = begin;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].written == Written::EachCall)
      end = std::max(end, offset_of(arrays[i]) + arrays[i].bytes());
  }
  if (!beside) return copy(begin, end);
  {
    const cuda::StreamScope scope(to_gpu_);
    copy(begin, end);
  }
  turns_[turn_].sent.record(to_gpu_);
  cuda::Stream::current(device_.index).wait(turns_[turn_].sent);
}

NDArray CallMemory::receive(const NDArray& from) {
  NDArray result = results_.take();
  cuda::start_copy(result.data(), Device::cpu(), from.data(), device_,
                   static_cast<size_t>(from.bytes()));
  return result;
}

NDArray CallMemory::receive_tokens(const NDArray& from) {
  Turn& turn = turns_[turn_];
  NDArray tokens = NDArray::wrap(turn.tokens.data(), from.shape(), from.dtype());
  mark();
  to_cpu_.wait(turn.end);
  const cuda::StreamScope scope(to_cpu_);
  cuda::start_copy(tokens.data(), Device::cpu(), from.data(), device_,
                   static_cast<size_t>(from.bytes()));
  turn.received.record();
  turn.receiving = true;
  return tokens;
}

void CallMemory::mark() {
  turns_[turn_].end.record();
  turns_[turn_].pending = true;
}

void CallMemory::wait(int calls_ago) {
  Turn& turn = turns_[(turn_ + static_cast<size_t>(calls_ago)) % kTurns];
  if (turn.receiving) {
    turn.received.synchronize();
  } else if (turn.pending) {
    turn.end.synchronize();
  }
  turn.pending = turn.receiving = false;
}

}  // namespace heddle::generate
