// The memory of a decoder's calls on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/ndarray.h"
#include "runtime/cuda/pinned_memory.h"

namespace heddle::generate {

/// Each argument of a call has memory of its own, as large as calls need. What the CPU writes and
/// reads is pinned: copies run in the stream, and the CPU waits once, for the result. What the CPU writes has
/// two places that take turns, so that a call is written while the one before it may still be read. What it
/// writes for each call has two places on the GPU as well: calls of one turn that read as many tokens have
/// arrays at the same addresses and are launches of one CUDA graph, one graph for each turn. Where calls follow each other before the CPU knows
/// their results, copies from and to the CPU run in streams of their own, beside the call before or after:
///
///   inputs of 1 | inputs of 2            | inputs of 3            |
///               | call 1                 | call 2                 | call 3
///                                        | tokens of 1            | tokens of 2
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
  CallMemory(std::vector<Part> parts, const Extents& result, Device device);
  /// Waits for copies from and to its memory.
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  /// The arguments of this call on the GPU, or of the next one; zeros at first. What each call writes lies close
  /// together.
  std::vector<NDArray> arrays(std::vector<Extents> shapes, bool next = false) const;
  /// The largest array of an argument that does not lie with those.
  NDArray whole(size_t part) const { return at(begin_[part], part, parts_[part].most); }
  /// Says that what is written from now on is of another call. Waits for the call before the last.
  void begin();
  /// Where the CPU writes one of them for a copy of `send`.
  NDArray on_cpu(const NDArray& array) const;
  /// Puts the copy of an argument into the current stream.
  void send(const NDArray& array) const;
  /// The same for those arguments of a call that the CPU writes for each, in one copy, which runs `beside` the
  /// work in the current stream where that is not waited for.
  void send_written(const std::vector<NDArray>& arrays, bool beside);

  /// An array on the CPU that gets the elements of one on the GPU, in the order of the current stream.
  NDArray receive(const NDArray& from);
  /// The same of the tokens of a call, in an array that the call after the next uses again. Later work in the
  /// stream does not wait for the copy.
  NDArray receive_tokens(const NDArray& from);
  /// Says that the current stream has all of a call.
  void mark();
  /// Waits for the work before the mark of this call, or of the one before it.
  void wait(int calls_ago = 0);

 private:
  static constexpr size_t kResults = 2;  ///< one that the caller has, and the next
  NDArray at(int64_t begin, size_t part, Extents shape) const;
  int64_t offset_of(const NDArray& array) const;
  void copy(int64_t begin, int64_t end) const;

  std::vector<Part> parts_;
  Device device_;
  std::vector<int64_t> begin_;  ///< of each part in the memory of both that no call moves
  NDArray gpu_;
  /// What belongs to the calls that take turns.
  struct Turn {
    cuda::PinnedMemory written, tokens;
    cuda::Event sent, end, received;
    bool pending = false;    ///< the work before the mark may not be done
    bool receiving = false;  ///< its tokens may not be there
  };
  static constexpr size_t kTurns = 2;
  std::vector<Turn> turns_;
  size_t turn_ = 0;
  int64_t of_turn_ = 0;  ///< bytes of what each call writes, of one place
  cuda::Stream to_gpu_, to_cpu_;
  cuda::PinnedArrays results_;
};

}  // namespace heddle::generate
