// Integer and bool arithmetic in the exact width: results wrap.
#include <utility>

#include "codegen/interpreter/program.h"

namespace heddle::interp {
namespace {

/// x ** y by squaring, wrapping. A negative exponent gives the truncated quotient.
template <typename T>
std::uint64_t int_pow(T x, T y) {
  if constexpr (std::is_signed_v<T>) {
    if (y < 0) {
      if (x == 1) return 1;
      if (x == -1) return (y & 1) != 0 ? ~std::uint64_t{0} : 1;
      return 0;
    }
  }
  std::uint64_t result = 1;
  auto base = static_cast<std::uint64_t>(x);
  for (auto n = static_cast<std::uint64_t>(y); n != 0; n >>= 1) {
    if ((n & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

/// The quotient and the remainder, both truncated. The lowest value by -1 wraps.
template <typename T>
std::pair<T, T> divide(T x, T y, const Context* context) {
  if (y == 0) context->fail("integer division by zero", ErrorKind::User);
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return {static_cast<T>(0 - static_cast<std::uint64_t>(x)), T{0}};
  }
  return {static_cast<T>(x / y), static_cast<T>(x % y)};
}

template <typename T>
bool rounds_down(T remainder, T y) {
  if constexpr (std::is_signed_v<T>) return remainder != 0 && (remainder < 0) != (y < 0);
  return false;
}

template <BinaryOp kOp, typename T>
std::int64_t apply(T x, T y, const Context* context) {
  // Unsigned 64-bit arithmetic is defined for all values. The caller wraps the result to the width.
  const auto ux = static_cast<std::uint64_t>(x), uy = static_cast<std::uint64_t>(y);
  const auto wrapped = [](std::uint64_t v) { return static_cast<std::int64_t>(v); };
  if constexpr (kOp == BinaryOp::Add) return wrapped(ux + uy);
  if constexpr (kOp == BinaryOp::Sub) return wrapped(ux - uy);
  if constexpr (kOp == BinaryOp::Mul) return wrapped(ux * uy);
  if constexpr (kOp == BinaryOp::Div) return static_cast<std::int64_t>(divide(x, y, context).first);
  if constexpr (kOp == BinaryOp::Mod) {
    return static_cast<std::int64_t>(divide(x, y, context).second);
  }
  if constexpr (kOp == BinaryOp::FloorDiv) {
    const auto [q, r] = divide(x, y, context);
    return static_cast<std::int64_t>(q) - (rounds_down(r, y) ? 1 : 0);
  }
  if constexpr (kOp == BinaryOp::FloorMod) {
    const T r = divide(x, y, context).second;
    return static_cast<std::int64_t>(r) + (rounds_down(r, y) ? static_cast<std::int64_t>(y) : 0);
  }
  if constexpr (kOp == BinaryOp::Min) return static_cast<std::int64_t>(x < y ? x : y);
  if constexpr (kOp == BinaryOp::Max) return static_cast<std::int64_t>(x > y ? x : y);
  if constexpr (kOp == BinaryOp::Pow) return wrapped(int_pow(x, y));
  if constexpr (kOp == BinaryOp::BitAnd) return wrapped(ux & uy);
  if constexpr (kOp == BinaryOp::BitOr) return wrapped(ux | uy);
  if constexpr (kOp == BinaryOp::BitXor) return wrapped(ux ^ uy);
  if constexpr (kOp == BinaryOp::Shl || kOp == BinaryOp::Shr) {
    if (uy >= static_cast<std::uint64_t>(Int<T>::kBits)) {
      context->fail("shift by " + std::to_string(static_cast<std::int64_t>(y)) + " of a " +
                    std::to_string(Int<T>::kBits) + "-bit integer");
    }
    if constexpr (kOp == BinaryOp::Shl) return wrapped(ux << uy);
    return static_cast<std::int64_t>(x >> y);
  }
}

template <BinaryOp kOp, typename T>
struct IntBinary final : Node {
  IntBinary(const Context* c, Node* x, Node* y) : context(c), a(x), b(y) {}
  std::int64_t int_value() override {
    const T x = static_cast<T>(a->int_value()), y = static_cast<T>(b->int_value());
    return Int<T>::wrap(apply<kOp>(x, y, context));
  }
  const Context* context;
  Node *a, *b;
};

template <BinaryOp kOp, typename T>
struct IntCompare final : Node {
  IntCompare(Node* x, Node* y) : a(x), b(y) {}
  std::int64_t int_value() override {
    const T x = static_cast<T>(a->int_value()), y = static_cast<T>(b->int_value());
    if constexpr (kOp == BinaryOp::Eq) return x == y;
    if constexpr (kOp == BinaryOp::Ne) return x != y;
    if constexpr (kOp == BinaryOp::Lt) return x < y;
    if constexpr (kOp == BinaryOp::Le) return x <= y;
  }
  Node *a, *b;
};

template <bool kAnd>
struct Logical final : Node {
  Logical(Node* x, Node* y) : a(x), b(y) {}
  std::int64_t int_value() override {
    const bool first = a->int_value() != 0;
    return first == kAnd ? static_cast<std::int64_t>(b->int_value() != 0) : first;
  }
  Node *a, *b;
};

template <UnaryOp kOp, typename T>
struct IntUnary final : Node {
  explicit IntUnary(Node* x) : a(x) {}
  std::int64_t int_value() override {
    const std::int64_t x = a->int_value();
    const auto negated = static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x));
    if constexpr (kOp == UnaryOp::Neg) return Int<T>::wrap(negated);
    if constexpr (kOp == UnaryOp::Abs) {
      return std::is_signed_v<T> && x < 0 ? Int<T>::wrap(negated) : x;
    }
    if constexpr (kOp == UnaryOp::BitNot) {
      return std::is_same_v<T, bool> ? static_cast<std::int64_t>(x == 0) : Int<T>::wrap(~x);
    }
    if constexpr (kOp == UnaryOp::Not) return x == 0;
  }
  Node* a;
};

struct Zero final : Node {
  std::int64_t int_value() override { return 0; }
};

}  // namespace

Node* make_int_binary(Program& p, BinaryOp op, DataType type, Node* a, Node* b) {
  return with_int_type(type, [&](auto element) -> Node* {
    using T = typename decltype(element)::Value;
    switch (op) {
#define HEDDLE_ARITHMETIC(name) \
  case BinaryOp::name: return p.make<IntBinary<BinaryOp::name, T>>(&p.context, a, b)
#define HEDDLE_COMPARISON(name) \
  case BinaryOp::name: return p.make<IntCompare<BinaryOp::name, T>>(a, b)
      HEDDLE_ARITHMETIC(Add);
      HEDDLE_ARITHMETIC(Sub);
      HEDDLE_ARITHMETIC(Mul);
      HEDDLE_ARITHMETIC(Div);
      HEDDLE_ARITHMETIC(FloorDiv);
      HEDDLE_ARITHMETIC(FloorMod);
      HEDDLE_ARITHMETIC(Mod);
      HEDDLE_ARITHMETIC(Min);
      HEDDLE_ARITHMETIC(Max);
      HEDDLE_ARITHMETIC(Pow);
      HEDDLE_ARITHMETIC(BitAnd);
      HEDDLE_ARITHMETIC(BitOr);
      HEDDLE_ARITHMETIC(BitXor);
      HEDDLE_ARITHMETIC(Shl);
      HEDDLE_ARITHMETIC(Shr);
      HEDDLE_COMPARISON(Eq);
      HEDDLE_COMPARISON(Ne);
      HEDDLE_COMPARISON(Lt);
      HEDDLE_COMPARISON(Le);
#undef HEDDLE_ARITHMETIC
#undef HEDDLE_COMPARISON
      case BinaryOp::And: return p.make<Logical<true>>(a, b);
      case BinaryOp::Or: return p.make<Logical<false>>(a, b);
      case BinaryOp::Atan2: break;
    }
    throw_internal_error(std::string("interpreter: ") + to_string(op) + " of " + to_string(type));
  });
}

Node* make_int_unary(Program& p, UnaryOp op, DataType type, Node* a) {
  switch (op) {
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc: return a;
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: return p.make<Zero>();
    default: break;
  }
  return with_int_type(type, [&](auto element) -> Node* {
    using T = typename decltype(element)::Value;
    if (op == UnaryOp::Neg) return p.make<IntUnary<UnaryOp::Neg, T>>(a);
    if (op == UnaryOp::Abs) return p.make<IntUnary<UnaryOp::Abs, T>>(a);
    if (op == UnaryOp::Not) return p.make<IntUnary<UnaryOp::Not, T>>(a);
    if (op == UnaryOp::BitNot) return p.make<IntUnary<UnaryOp::BitNot, T>>(a);
    throw_internal_error(std::string("interpreter: ") + to_string(op) + " of " + to_string(type));
  });
}

}  // namespace heddle::interp
