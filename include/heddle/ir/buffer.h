// A named region of memory that expressions read and statements write.
//
// Buffers are identities: two buffers with the same name and shape are two buffers. A tensor of the
// DSL *is* a buffer owned by its operation (`producer()` tells which), so a declaration, a
// scheduled stage and the lowered program all read memory through one node, `Load`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/support/dtype.h"
#include "heddle/support/ref.h"

namespace heddle {

class Expr;

/// Where a lowered buffer is stored.
enum class Scope : uint8_t {
  Argument,  ///< passed by the caller
  Global,    ///< a temporary on the heap, shared by all threads
  Local,     ///< private to one iteration of the loop it is allocated in: registers or stack
  Shared,    ///< on-chip memory of one thread block of a GPU
};

/// A dimension of an image whose windows a convolution reads: `points` windows, `stride` elements
/// apart. The first one begins at element `first`, which is negative where the image is padded.
struct WindowDim {
  int64_t points = 1, stride = 1, first = 0;
  bool operator==(const WindowDim&) const = default;
};

/// A multi-dimensional array of one element type: the memory of a tensor or of a temporary.
class BufferNode {
 public:
  BufferNode(std::string name, DataType dtype, std::vector<Expr> shape, Scope scope,
             const RefCounted* owner = nullptr, std::vector<WindowDim> windows = {});
  ~BufferNode();
  BufferNode(const BufferNode&) = delete;
  BufferNode& operator=(const BufferNode&) = delete;

  const std::string name;
  const DataType dtype;
  const std::vector<Expr> shape;  ///< extents, outermost first; row-major
  const Scope scope;
  /// Where the rows are the windows of an image, in row-major order (StageRef::as_product): the
  /// dimensions of the image between those of the batch and of the channels. Without `first`.
  const std::vector<WindowDim> windows;
  const uint64_t id;  ///< unique in the process, in order of creation; never printed

  /// The operation that owns this buffer, or null. The first handle of an owned buffer belongs to
  /// its owner and is not counted. Every other handle keeps the owner alive, so declarations
  /// neither dangle nor form cycles.
  const RefCounted* producer() const { return owner_; }

  void acquire() const;
  void release() const;

 private:
  const RefCounted* owner_;
  mutable std::atomic<uint32_t> refs_{0};
};

/// A cheap handle; compares by identity.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(const BufferNode* node) : node_(node) {
    if (node_) node_->acquire();
  }
  /// A new buffer that nothing owns.
  static Buffer make(std::string name, DataType dtype, std::vector<Expr> shape, Scope scope,
                     std::vector<WindowDim> windows = {});

  Buffer(const Buffer& o) : Buffer(o.node_) {}
  Buffer(Buffer&& o) noexcept : node_(o.node_) { o.node_ = nullptr; }
  Buffer& operator=(Buffer o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~Buffer() {
    if (node_) node_->release();
  }

  const BufferNode* operator->() const { return node_; }
  const BufferNode* get() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.node_ == b.node_; }

  /// Elements, when every extent is a constant; throws an internal error otherwise.
  int64_t num_elements() const;
  /// The constant extent of dimension `d`.
  int64_t extent(int d) const;

 private:
  const BufferNode* node_ = nullptr;
};

}  // namespace heddle
