// Expressions as C++ text, with as few parentheses as precedence allows.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::cuda {

/// The precedence of the outermost operator of a text, as in C++.
enum Precedence {
  kTernary,
  kOr,
  kAnd,
  kBitOr,
  kBitXor,
  kBitAnd,
  kEquality,
  kRelation,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kAtom
};

struct Text {
  std::string s;
  Precedence precedence = kAtom;
  bool wide = false;  ///< of i64: the text is a `long long`; otherwise an `int` holds its value

  /// The text, in parentheses unless its precedence is at least `min`.
  std::string at(Precedence min) const { return precedence < min ? "(" + s + ")" : s; }
};

/// Operands of shifts and bit operations are in parentheses unless they are atoms, because few
/// readers know their precedence.
inline Text infix(const Text& a, const char* op, const Text& b, Precedence p) {
  const bool bits = p == kShift || (p >= kBitOr && p <= kBitAnd);
  const Precedence left = bits ? kUnary : p == kOr ? kEquality : p;
  return {a.at(left) + " " + op + " " + b.at(bits ? kUnary : static_cast<Precedence>(p + 1)), p};
}

inline Text converted(const std::string& type, const Text& a) {
  return {"(" + type + ")" + a.at(kUnary), kUnary};
}

inline Text call(const std::string& function, const Text& a) {
  return {function + "(" + a.s + ")", kAtom};
}
inline Text call(const std::string& function, const Text& a, const Text& b) {
  return {function + "(" + a.s + ", " + b.s + ")", kAtom};
}

}  // namespace heddle::cuda
