// Floating-point arithmetic: computed in double, rounded to the type after every operation.
#include <cmath>

#include "codegen/interpreter/program.h"
#include "ir/fold.h"

namespace heddle::interp {
namespace {

template <BinaryOp kOp>
double apply(double x, double y) {
  if constexpr (kOp == BinaryOp::Add) return x + y;
  if constexpr (kOp == BinaryOp::Sub) return x - y;
  if constexpr (kOp == BinaryOp::Mul) return x * y;
  if constexpr (kOp == BinaryOp::Div) return x / y;
  if constexpr (kOp == BinaryOp::Mod) return std::fmod(x, y);
  if constexpr (kOp == BinaryOp::Min) return x < y || std::isnan(x) ? x : y;
  if constexpr (kOp == BinaryOp::Max) return x > y || std::isnan(x) ? x : y;
  if constexpr (kOp == BinaryOp::Pow) return std::pow(x, y);
  if constexpr (kOp == BinaryOp::Atan2) return std::atan2(x, y);
}

template <BinaryOp kOp, typename Type>
struct FloatBinary final : Node {
  FloatBinary(Node* x, Node* y) : a(x), b(y) {}
  double float_value() override {
    const double x = a->float_value(), y = b->float_value();
    // An operand of the type needs no rounding. Infinities of E5M2 become its largest number, as in
    // every operation.
    if constexpr ((kOp == BinaryOp::Min || kOp == BinaryOp::Max) && !std::is_same_v<Type, E5M2>)
      return apply<kOp>(x, y);
    return Type::round(apply<kOp>(x, y));
  }
  Node *a, *b;
};

template <BinaryOp kOp>
struct FloatCompare final : Node {
  FloatCompare(Node* x, Node* y) : a(x), b(y) {}
  std::int64_t int_value() override {
    const double x = a->float_value(), y = b->float_value();
    if constexpr (kOp == BinaryOp::Eq) return x == y;
    if constexpr (kOp == BinaryOp::Ne) return x != y;
    if constexpr (kOp == BinaryOp::Lt) return x < y;
    if constexpr (kOp == BinaryOp::Le) return x <= y;
  }
  Node *a, *b;
};

double negate(double x) { return -x; }
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
// The rounding mode is never changed, so nearbyint rounds half to even.
double round_even(double x) { return std::nearbyint(x); }

using Function = double (*)(double);

/// One node serves all functions, because the indirect call is cheap compared with the function.
template <typename Type>
struct FloatUnary final : Node {
  FloatUnary(Function f, Node* x) : function(f), a(x) {}
  double float_value() override { return Type::round(function(a->float_value())); }
  Function function;
  Node* a;
};

template <bool kNan>
struct Test final : Node {
  explicit Test(Node* x) : a(x) {}
  std::int64_t int_value() override {
    const double x = a->float_value();
    return kNan ? std::isnan(x) : std::isinf(x);
  }
  Node* a;
};

[[noreturn]] void no_such_operation(const char* op, DataType type) {
  throw_internal_error(std::string("interpreter: ") + op + " of " + to_string(type));
}

Function function_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg: return negate;
    case UnaryOp::Abs: return std::fabs;
    case UnaryOp::Exp: return std::exp;
    case UnaryOp::Exp2: return std::exp2;
    case UnaryOp::Expm1: return std::expm1;
    case UnaryOp::Log: return std::log;
    case UnaryOp::Log2: return std::log2;
    case UnaryOp::Log10: return std::log10;
    case UnaryOp::Log1p: return std::log1p;
    case UnaryOp::Sqrt: return std::sqrt;
    case UnaryOp::Rsqrt: return rsqrt;
    case UnaryOp::Sin: return std::sin;
    case UnaryOp::Cos: return std::cos;
    case UnaryOp::Tan: return std::tan;
    case UnaryOp::Asin: return std::asin;
    case UnaryOp::Acos: return std::acos;
    case UnaryOp::Atan: return std::atan;
    case UnaryOp::Sinh: return std::sinh;
    case UnaryOp::Cosh: return std::cosh;
    case UnaryOp::Tanh: return std::tanh;
    case UnaryOp::Erf: return std::erf;
    case UnaryOp::Floor: return std::floor;
    case UnaryOp::Ceil: return std::ceil;
    case UnaryOp::Round: return round_even;
    case UnaryOp::Trunc: return std::trunc;
    case UnaryOp::RoundTf32: return rounded_to_tf32;
    case UnaryOp::Not:
    case UnaryOp::BitNot:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: return nullptr;
  }
  return nullptr;
}

}  // namespace

Node* make_float_binary(Program& p, BinaryOp op, DataType type, Node* a, Node* b) {
  switch (op) {
    case BinaryOp::Eq: return p.make<FloatCompare<BinaryOp::Eq>>(a, b);
    case BinaryOp::Ne: return p.make<FloatCompare<BinaryOp::Ne>>(a, b);
    case BinaryOp::Lt: return p.make<FloatCompare<BinaryOp::Lt>>(a, b);
    case BinaryOp::Le: return p.make<FloatCompare<BinaryOp::Le>>(a, b);
    default: break;
  }
  return with_float_type(type, [&](auto element) -> Node* {
    using T = decltype(element);
    switch (op) {
      case BinaryOp::Add: return p.make<FloatBinary<BinaryOp::Add, T>>(a, b);
      case BinaryOp::Sub: return p.make<FloatBinary<BinaryOp::Sub, T>>(a, b);
      case BinaryOp::Mul: return p.make<FloatBinary<BinaryOp::Mul, T>>(a, b);
      case BinaryOp::Div: return p.make<FloatBinary<BinaryOp::Div, T>>(a, b);
      case BinaryOp::Mod: return p.make<FloatBinary<BinaryOp::Mod, T>>(a, b);
      case BinaryOp::Min: return p.make<FloatBinary<BinaryOp::Min, T>>(a, b);
      case BinaryOp::Max: return p.make<FloatBinary<BinaryOp::Max, T>>(a, b);
      case BinaryOp::Pow: return p.make<FloatBinary<BinaryOp::Pow, T>>(a, b);
      case BinaryOp::Atan2: return p.make<FloatBinary<BinaryOp::Atan2, T>>(a, b);
      case BinaryOp::Eq:
      case BinaryOp::Ne:
      case BinaryOp::Lt:
      case BinaryOp::Le:
      case BinaryOp::FloorDiv:
      case BinaryOp::FloorMod:
      case BinaryOp::And:
      case BinaryOp::Or:
      case BinaryOp::BitAnd:
      case BinaryOp::BitOr:
      case BinaryOp::BitXor:
      case BinaryOp::Shl:
      case BinaryOp::Shr: break;
    }
    no_such_operation(to_string(op), type);
  });
}

Node* make_float_unary(Program& p, UnaryOp op, DataType type, Node* a) {
  if (op == UnaryOp::IsNan) return p.make<Test<true>>(a);
  if (op == UnaryOp::IsInf) return p.make<Test<false>>(a);
  const Function function = function_of(op);
  if (function == nullptr) no_such_operation(to_string(op), type);
  return with_float_type(type, [&](auto element) -> Node* {
    return p.make<FloatUnary<decltype(element)>>(function, a);
  });
}

}  // namespace heddle::interp
