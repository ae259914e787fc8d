// Conversions between element types.
#include <cmath>
#include <limits>

#include "codegen/interpreter/program.h"

namespace heddle::interp {
namespace {

template <typename T>
struct IntToInt final : Node {
  explicit IntToInt(Node* x) : a(x) {}
  std::int64_t int_value() override {
    const std::int64_t v = a->int_value();
    return std::is_same_v<T, bool> ? static_cast<std::int64_t>(v != 0) : Int<T>::wrap(v);
  }
  Node* a;
};

template <typename Type, typename From>
struct IntToFloat final : Node {
  explicit IntToFloat(Node* x) : a(x) {}
  double float_value() override {
    const auto v = static_cast<From>(a->int_value());
    // A conversion to f32 is direct, because a large integer would be rounded twice through double.
    if constexpr (std::is_same_v<Type, F32>) return static_cast<float>(v);
    return Type::round(static_cast<double>(v));
  }
  Node* a;
};

template <typename T>
struct FloatToInt final : Node {
  explicit FloatToInt(Node* x) : a(x) {}
  std::int64_t int_value() override {
    const double v = a->float_value();
    if constexpr (std::is_same_v<T, bool>) return v != 0;
    if (std::isnan(v)) return 0;
    // The highest 64-bit values round up to a power of two here, so >= is right for them too.
    constexpr T kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    if (v <= static_cast<double>(kLow)) return static_cast<std::int64_t>(kLow);
    if (v >= static_cast<double>(kHigh)) return static_cast<std::int64_t>(kHigh);
    return static_cast<std::int64_t>(static_cast<T>(v));
  }
  Node* a;
};

template <typename Type>
struct FloatToFloat final : Node {
  explicit FloatToFloat(Node* x) : a(x) {}
  double float_value() override { return Type::round(a->float_value()); }
  Node* a;
};

}  // namespace

Node* make_cast(Program& p, DataType from, DataType to, Node* a) {
  if (from == to) return a;
  if (to.is_float()) {
    return with_float_type(to, [&](auto element) -> Node* {
      using Type = decltype(element);
      if (from.is_float()) return p.make<FloatToFloat<Type>>(a);
      if (from == u64) return p.make<IntToFloat<Type, std::uint64_t>>(a);
      return p.make<IntToFloat<Type, std::int64_t>>(a);
    });
  }
  return with_int_type(to, [&](auto element) -> Node* {
    using T = typename decltype(element)::Value;
    if (from.is_float()) return p.make<FloatToInt<T>>(a);
    return p.make<IntToInt<T>>(a);
  });
}

}  // namespace heddle::interp
