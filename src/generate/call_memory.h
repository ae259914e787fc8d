// The memory of a decoder's calls on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/ndarray.h"
#include "runtime/cuda/pinned_memory.h"

namespace heddle::generate {

/// Each argument of a call has memory of its own, as large as calls need, so that calls that read as many
/// tokens have arrays at the same addresses and are launches of one CUDA graph. What the CPU writes and
/// reads is pinned: copies run in the stream, and the CPU waits once, for the result.
class CallMemory {
 public:
  /// When the CPU writes an argument.
  enum class Written : uint8_t { Never, Sometimes, EachCall };
  struct Part {
    Extents most = {0};  ///< the largest extents; by default it has memory elsewhere
    DataType dtype;
    Written written = Written::Never;
  };
  /// `result` is the shape of what a step returns, of f32.
  CallMemory(std::vector<Part> parts, Extents result, Device device);

  /// The arguments of a call on the GPU; zeros at first. What each call writes lies close together.
  std::vector<NDArray> arrays(std::vector<Extents> shapes) const;
  /// The largest array of an argument that does not lie with those.
  NDArray whole(size_t part) const { return at(begin_[part], part, parts_[part].most); }
  /// Where the CPU writes one of them for a copy of `send`. Waits until no copy reads that.
  NDArray on_cpu(const NDArray& array);
  /// Puts the copy of an argument into the current stream.
  void send(const NDArray& array) const;
  /// The same for those arguments of a call that the CPU writes for each, in one copy.
  void send_written(const std::vector<NDArray>& arrays) const;

  /// An array on the CPU that gets the elements of one on the GPU, in the order of the current stream.
  NDArray receive(const NDArray& from);
  /// Says that the current stream has all of a step.
  void mark();
  /// Waits for the work before the mark.
  void wait();

 private:
  static constexpr size_t kResults = 2;  ///< one that the caller has, and the next
  NDArray at(int64_t begin, size_t part, Extents shape) const;
  int64_t offset_of(const NDArray& array) const;
  void copy(int64_t begin, int64_t end) const;

  std::vector<Part> parts_;
  Device device_;
  std::vector<int64_t> begin_;  ///< of each part in the memory of both that no call moves
  NDArray gpu_;
  cuda::PinnedMemory cpu_;
  cuda::PinnedArrays results_;
  cuda::Event end_;
  bool pending_ = false;  ///< the work before the mark may not be done
};

}  // namespace heddle::generate
