#include "heddle/ir/buffer.h"

#include "heddle/ir/expr.h"
#include "heddle/support/error.h"

namespace heddle {

static uint64_t next_buffer_id() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

BufferNode::BufferNode(std::string name, DataType dtype, std::vector<Expr> shape, Scope scope,
                       const RefCounted* owner, std::vector<WindowDim> windows)
    : name(std::move(name)),
      dtype(dtype),
      shape(std::move(shape)),
      scope(scope),
      windows(std::move(windows)),
      id(next_buffer_id()),
      owner_(owner) {
  HEDDLE_ICHECK(dtype.is_scalar(), "a buffer holds scalars, not " + to_string(dtype));
  for (const Expr& extent : this->shape) {
    HEDDLE_ICHECK(extent.defined() && extent.dtype() == i64, "the extents of a buffer are i64");
  }
}

BufferNode::~BufferNode() = default;

void BufferNode::acquire() const {
  if (refs_.fetch_add(1, std::memory_order_relaxed) != 0 && owner_) owner_->acquire();
}

void BufferNode::release() const {
  // Releasing the owner may destroy this node (its own handle is then the last one), so nothing may
  // follow it.
  const RefCounted* owner = owner_;
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  } else if (owner) {
    owner->release();
  }
}

Buffer Buffer::make(std::string name, DataType dtype, std::vector<Expr> shape, Scope scope,
                    std::vector<WindowDim> windows) {
  return Buffer(
      new BufferNode(std::move(name), dtype, std::move(shape), scope, nullptr, std::move(windows)));
}

int64_t Buffer::num_elements() const {
  int64_t n = 1;
  for (size_t d = 0; d < node_->shape.size(); ++d) {
    const bool overflow = __builtin_mul_overflow(n, extent(static_cast<int>(d)), &n);
    HEDDLE_ICHECK(!overflow, "buffer '" + node_->name + "' has more than 2^63 elements");
  }
  return n;
}

int64_t Buffer::extent(int d) const {
  HEDDLE_ICHECK(d >= 0 && d < static_cast<int>(node_->shape.size()),
                "buffer '" + node_->name + "' has no dimension " + std::to_string(d));
  const int64_t* value = as_int(node_->shape[static_cast<size_t>(d)]);
  HEDDLE_ICHECK(
      value, "extent " + std::to_string(d) + " of buffer '" + node_->name + "' is not a constant");
  return *value;
}

}  // namespace heddle
