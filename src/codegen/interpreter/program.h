// The compiled form that the interpreter runs: a tree of nodes with variables resolved to slots and
// buffers to memory, so that an evaluation looks nothing up and allocates nothing.
//
// Vectors have no nodes of their own. A vector expression is compiled like a scalar one in which a
// Ramp reads the lane number from a slot, and its user evaluates it once for each lane. So any lane
// count works, and a vector select masks the loads of its arms by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/interpreter/value.h"
#include "heddle/ir/stmt.h"

namespace heddle::interp {

/// One expression. Only the method of its type may be called.
class Node {
 public:
  virtual ~Node() = default;
  virtual std::int64_t int_value();
  virtual double float_value();
};

/// State shared by the nodes of one program.
struct Context {
  Slot lane{0};
  /// Increased whenever variables or memory may have changed. A value remembered under another
  /// number is stale.
  std::uint64_t epoch = 0;
  const StmtNode* statement = nullptr;  ///< what runs now, for messages
  std::string stage;                    ///< or the declaration that is evaluated
  Where where;

  /// Throws an error with `what` and the current place. A User error is one of the data.
  [[noreturn]] void fail(const std::string& what, ErrorKind kind = ErrorKind::Internal) const;
};

/// The contents of a buffer. Those of an argument belong to the caller and count as written.
struct Memory {
  Buffer buffer;
  std::byte* data = nullptr;
  std::vector<std::int64_t> extents;
  std::int64_t size = 0;
  bool tracked = false;  ///< reads of elements never written are errors
  std::vector<std::uint8_t> written;
  std::vector<std::uint64_t> own;  ///< the elements, where `data` is not the caller's

  void bind(void* elements, std::vector<std::int64_t> shape);
  /// Allocates elements, none of which counts as written.
  void allocate(std::vector<std::int64_t> shape);
};

/// An index as constant + sum(coefficient * value), which is evaluated without a node for each
/// operation.
class Linear {
 public:
  Linear() = default;
  explicit Linear(std::int64_t c) : constant_(c) {}
  static Linear of(const Slot* slot, std::int64_t coefficient);
  static Linear of(Node* node);
  void add(const Linear& other, std::int64_t factor);

  // The arithmetic is unsigned, because i64 wraps.
  std::int64_t value() const {
    auto sum = static_cast<std::uint64_t>(constant_);
    for (int t = 0; t < count_; ++t) {
      sum += static_cast<std::uint64_t>(first_[t].slot->i) *
             static_cast<std::uint64_t>(first_[t].coefficient);
    }
    if (!nodes_.empty() || !more_.empty()) [[unlikely]]
      sum += slow_terms();
    return static_cast<std::int64_t>(sum);
  }

  bool is_constant() const { return count_ == 0 && nodes_.empty(); }
  std::int64_t constant() const { return constant_; }
  /// The slot or node that this form is equal to, else null.
  const Slot* single_slot() const;
  Node* single_node() const;

 private:
  struct SlotTerm {
    const Slot* slot;
    std::int64_t coefficient;
  };
  struct NodeTerm {
    Node* node;
    std::int64_t coefficient;
  };
  static constexpr int kInline = 3;

  void add_slot(const SlotTerm& term);
  std::uint64_t slow_terms() const;

  std::int64_t constant_ = 0;
  int count_ = 0;
  SlotTerm first_[kInline] = {};  // nearly all indices need no more, and no second cache line
  std::vector<SlotTerm> more_;
  std::vector<NodeTerm> nodes_;
};

/// One element of a buffer: an index per dimension, or one flat index.
struct Address {
  Context* context = nullptr;
  Memory* memory = nullptr;
  std::vector<Linear> indices;

  std::int64_t position() const {
    if (indices.size() == 1) {
      const std::int64_t i = indices[0].value();
      if (static_cast<std::uint64_t>(i) >= static_cast<std::uint64_t>(memory->size)) [[unlikely]] {
        out_of_bounds();
      }
      return i;
    }
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const std::int64_t i = indices[d].value();
      const std::int64_t extent = memory->extents[d];
      if (static_cast<std::uint64_t>(i) >= static_cast<std::uint64_t>(extent)) [[unlikely]] {
        out_of_bounds();
      }
      flat = flat * extent + i;
    }
    if (memory->size == 0) [[unlikely]]
      out_of_bounds();
    return flat;
  }
  std::int64_t position_to_read() const {
    const std::int64_t p = position();
    if (memory->tracked && memory->written[static_cast<std::size_t>(p)] == 0) [[unlikely]] {
      never_written();
    }
    return p;
  }

 private:
  [[noreturn]] void out_of_bounds() const;
  [[noreturn]] void never_written() const;
  std::string describe() const;
};

/// Owns all objects to which nodes point.
class Program {
 public:
  Context context;

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    auto node = std::make_unique<T>(std::forward<Args>(args)...);
    T* raw = node.get();
    nodes_.push_back(std::move(node));
    return raw;
  }
  Slot* make_slots(int count) {
    slots_.push_back(std::make_unique<Slot[]>(static_cast<std::size_t>(count)));
    return slots_.back().get();
  }
  Memory* make_memory(const Buffer& buffer) {
    memories_.push_back(std::make_unique<Memory>());
    memories_.back()->buffer = buffer;
    return memories_.back().get();
  }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Slot[]>> slots_;
  std::vector<std::unique_ptr<Memory>> memories_;
};

// ---- nodes by operation (int_ops.cpp, float_ops.cpp, cast_ops.cpp, memory.cpp) ----
// `type` is the element type of the operands; comparisons give bool.
Node* make_int_binary(Program& p, BinaryOp op, DataType type, Node* a, Node* b);
Node* make_int_unary(Program& p, UnaryOp op, DataType type, Node* a);
Node* make_float_binary(Program& p, BinaryOp op, DataType type, Node* a, Node* b);
Node* make_float_unary(Program& p, UnaryOp op, DataType type, Node* a);
Node* make_cast(Program& p, DataType from, DataType to, Node* a);
Node* make_load(Program& p, DataType type, Address address);

/// Writes one element, or `lanes` of them after all have been evaluated. Lanes where `mask` is
/// false are neither evaluated nor written.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual void write() = 0;
};
std::unique_ptr<Writer> make_writer(Context* context, DataType type, int lanes, Address address,
                                    Node* value, Node* mask = nullptr);

}  // namespace heddle::interp
