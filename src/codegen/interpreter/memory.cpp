// Buffers of the interpreter: checked reads and writes.
#include <algorithm>
#include <cstring>

#include "codegen/interpreter/program.h"
#include "heddle/ir/print.h"

namespace heddle::interp {
namespace {

std::string list(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += (i != 0 ? ", " : "") + std::to_string(values[i]);
  }
  return text + "]";
}

template <typename Element>
struct IntLoad final : Node {
  explicit IntLoad(Address a) : address(std::move(a)) {}
  std::int64_t int_value() override {
    const std::int64_t p = address.position_to_read();
    return Element::read(
        reinterpret_cast<const typename Element::Storage*>(address.memory->data)[p]);
  }
  Address address;
};

template <typename Element>
struct FloatLoad final : Node {
  explicit FloatLoad(Address a) : address(std::move(a)) {}
  double float_value() override {
    const std::int64_t p = address.position_to_read();
    return Element::read(
        reinterpret_cast<const typename Element::Storage*>(address.memory->data)[p]);
  }
  Address address;
};

template <typename Element, bool kFloat>
class ElementWriter final : public Writer {
 public:
  using Storage = typename Element::Storage;
  ElementWriter(Context* context, int lanes, Address address, Node* value, Node* mask)
      : context_(context),
        lanes_(lanes),
        address_(std::move(address)),
        value_(value),
        mask_(mask),
        positions_(static_cast<std::size_t>(lanes)),
        values_(static_cast<std::size_t>(lanes)) {}

  void write() override {
    if (lanes_ == 1) {
      ++context_->epoch;
      const Storage v = evaluate();
      put(address_.position(), v);
      return;
    }
    for (int lane = 0; lane < lanes_; ++lane) {
      ++context_->epoch;
      context_->lane.i = lane;
      positions_[static_cast<std::size_t>(lane)] = kLeftOut;
      if (mask_ != nullptr && mask_->int_value() == 0) continue;
      values_[static_cast<std::size_t>(lane)] = evaluate();
      positions_[static_cast<std::size_t>(lane)] = address_.position();
    }
    context_->lane.i = 0;
    for (std::size_t lane = 0; lane < positions_.size(); ++lane) {
      if (positions_[lane] != kLeftOut) put(positions_[lane], values_[lane]);
    }
  }

 private:
  static constexpr std::int64_t kLeftOut = -1;

  Storage evaluate() const {
    if constexpr (kFloat) {
      return Element::write(value_->float_value());
    } else {
      return Element::write(value_->int_value());
    }
  }
  void put(std::int64_t position, Storage v) const {
    Memory& m = *address_.memory;
    reinterpret_cast<Storage*>(m.data)[position] = v;
    if (m.tracked) m.written[static_cast<std::size_t>(position)] = 1;
  }

  Context* context_;
  int lanes_;
  Address address_;
  Node* value_;
  Node* mask_;
  std::vector<std::int64_t> positions_;
  std::vector<Storage> values_;
};

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t size = 1;
  for (std::int64_t e : extents) size *= std::max<std::int64_t>(e, 0);
  return size;
}

}  // namespace

std::int64_t Node::int_value() { throw_internal_error("interpreter: a float used as an integer"); }
double Node::float_value() { throw_internal_error("interpreter: an integer used as a float"); }

void Context::fail(const std::string& what, ErrorKind kind) const {
  std::string message = what;
  if (!stage.empty()) message += "\n  while evaluating '" + stage + "'";
  if (statement != nullptr) {
    // Only the head of a loop or branch is named, because its body has statements of its own.
    const Stmt s(statement);
    const std::string text = to_string(s);
    message += "\n  in: " + text.substr(0, text.find('\n'));
  }
  if (kind == ErrorKind::Internal) throw_internal_error(std::move(message), where);
  throw Error(kind, std::move(message), where);
}

void Memory::bind(void* elements, std::vector<std::int64_t> shape) {
  data = static_cast<std::byte*>(elements);
  extents = std::move(shape);
  size = product(extents);
  tracked = false;
}

void Memory::allocate(std::vector<std::int64_t> shape) {
  extents = std::move(shape);
  size = product(extents);
  const auto n = static_cast<std::size_t>(size);
  own.resize((n * static_cast<std::size_t>(buffer->dtype.bytes()) + 7) / 8);
  data = reinterpret_cast<std::byte*>(own.data());
  tracked = true;
  written.assign(n, 0);
}

std::string Address::describe() const {
  std::vector<std::int64_t> at;
  for (const Linear& index : indices) at.push_back(index.value());
  std::string text = "'" + memory->buffer->name + "' at " + list(at);
  if (at.size() != memory->extents.size()) text += " (flat)";
  return text;
}

void Address::out_of_bounds() const {
  context->fail("access to " + describe() + ", outside its extents " + list(memory->extents));
}

void Address::never_written() const {
  context->fail("read of " + describe() + ", which was never written");
}

Node* make_load(Program& p, DataType type, Address address) {
  if (type.is_float()) {
    return with_float_type(type, [&](auto element) -> Node* {
      return p.make<FloatLoad<decltype(element)>>(std::move(address));
    });
  }
  return with_int_type(type, [&](auto element) -> Node* {
    return p.make<IntLoad<decltype(element)>>(std::move(address));
  });
}

std::unique_ptr<Writer> make_writer(Context* context, DataType type, int lanes, Address address,
                                    Node* value, Node* mask) {
  if (type.is_float()) {
    return with_float_type(type, [&](auto element) -> std::unique_ptr<Writer> {
      return std::make_unique<ElementWriter<decltype(element), true>>(
          context, lanes, std::move(address), value, mask);
    });
  }
  return with_int_type(type, [&](auto element) -> std::unique_ptr<Writer> {
    return std::make_unique<ElementWriter<decltype(element), false>>(
        context, lanes, std::move(address), value, mask);
  });
}

}  // namespace heddle::interp
