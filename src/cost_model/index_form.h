// Index expressions as sums of digits, from which footprints, strides and trip counts are computed.
//
//   (f / 8)*64 + f % 8 + 3, f in 0..32   -->   {f/8: 4 values, stride 64} + {f%8: 8, stride 1} + 3
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle::cost_model {

/// The depth of the lanes of a vector expression: inside of all loops.
constexpr int kLaneDepth = 1000;
/// The depth of the copies that unrolling made: between the loops and the lanes.
constexpr int kCopyDepth = 900;

/// (variable of the loop at `depth` / divisor), taking `extent` values, times `stride`.
struct Digit {
  int depth;
  double divisor, extent, stride;
  friend bool operator==(const Digit&, const Digit&) = default;
};

/// A sum of digits and a constant. Digits beyond the capacity are dropped; no loop nest of Heddle
/// has such an expression.
struct IndexForm {
  static constexpr int kMost = 20;
  double constant = 0;
  int size = 0;
  std::array<Digit, kMost> digits;  // the first `size` of them

  IndexForm() {}  // NOLINT(modernize-use-equals-default): leaves the digits as they are
  IndexForm(const IndexForm& o) : constant(o.constant), size(o.size) {
    std::copy_n(o.digits.begin(), size, digits.begin());
  }
  IndexForm& operator=(const IndexForm& o) {
    constant = o.constant;
    size = o.size;
    std::copy_n(o.digits.begin(), size, digits.begin());
    return *this;
  }

  void add(const Digit& d) {
    if (d.extent <= 1 || d.stride == 0) return;
    for (int i = 0; i < size; ++i) {
      Digit& o = digits[i];
      if (o.depth != d.depth || o.divisor != d.divisor || o.extent != d.extent) continue;
      if (d.depth == kCopyDepth) continue;  // two directions of copies
      o.stride += d.stride;
      if (o.stride == 0) o = digits[--size];
      return;
    }
    if (size < kMost) digits[size++] = d;
  }
  void add(const IndexForm& o, double scale);
  double least() const, most() const;
  const Digit* begin() const { return digits.data(); }
  const Digit* end() const { return digits.data() + size; }
};

/// A loop around the current statement.
struct OpenLoop {
  const VarNode* var = nullptr;
  double extent = 1;  ///< its iterations: a mean where they vary, fewer under a condition
  double most = 1;    ///< its largest extent
  LoopKind kind = LoopKind::Serial;
  int node = -1;  ///< in Program::loops
};

/// The variables in scope.
struct Nest {
  std::vector<OpenLoop> loops;  ///< outermost first
  std::vector<std::pair<const VarNode*, Expr>> lets;

  IndexForm form(const Expr& e) const;
  /// Adds `scale` times the form of `e`.
  void put(IndexForm* out, const Expr& e, double scale) const;
  /// The mean and the largest length of a loop of this extent over the open loops.
  std::pair<double, double> extent(const Expr& e) const;
  /// The share of the iterations of the open loops in which `condition` holds. When it cuts one
  /// loop in two, `*cut` is that loop's depth.
  double share(const Expr& condition, int* cut) const;

 private:
  void put_divided(IndexForm* out, const IndexForm& x, double by, double scale) const;
  void put_remainder(IndexForm* out, const IndexForm& x, double by, double scale) const;
  void put_opaque(IndexForm* out, const Expr& e, double scale) const;
  double share_below(const IndexForm& x, bool or_equal, int* cut) const;
};

}  // namespace heddle::cost_model
