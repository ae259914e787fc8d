// One level of Strassen's multiplication of matrices, in Winograd's variant (Winograd 1971, "On
// multiplication of 2 x 2 matrices"): seven products of half the size in the place of eight, and
// fifteen additions, of matrices cut in quarters.
//
//   C = A B                                                                         (before)
//
//   S[q] = A11, A12, S4, A22, S1, S2, S3        S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21,
//                                               S4 = A12 - S2
//   T[q] = B11, B21, B22, T4, T1, T2, T3        T1 = B12 - B11, T2 = B22 - T1, T3 = B22 - B12,
//                                               T4 = T2 - B21
//   P[q] = S[q] T[q]                            for q < 7                           (after)
//   C11  = P1 + P2               C12 = P1 + P6 + P5 + P3
//   C21  = P1 + P6 + P7 - P4     C22 = P1 + P6 + P7 + P5
#include <algorithm>
#include <array>
#include <cmath>

#include "dag/convolution.h"
#include "dag/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr int64_t kProducts = 7;
constexpr int64_t kSmall =
    1024;  // smaller matrices spend more than an eighth of the time on additions

/// A product of two matrices as a stage declares it.
struct Product {
  const Access* a = nullptr;  ///< of rows and terms
  const Access* b = nullptr;  ///< of terms and columns
  int64_t rows = 0, cols = 0, depth = 0;
  int a_row = -1, a_k = -1, b_k = -1, b_col = -1;  ///< dimensions
};

std::string match(const RewriteSite& site, Product* out) {
  const Access* operands[2];
  if (std::string why = dag::match_contraction(site.dag, site.stage, operands); !why.empty())
    return why;
  const Operation& op = site.op();
  if (op.axes().size() != 2 || op.reduce_axes().size() != 1) return "not a product of two matrices";
  const Axis &i = op.axes()[0], &j = op.axes()[1], &k = op.reduce_axes()[0];
  Product p{.rows = i.extent(), .cols = j.extent(), .depth = k.extent()};
  const bool first = operands[0]->depends_on(i);
  p.a = operands[first ? 0 : 1];
  p.b = operands[first ? 1 : 0];
  if (p.a->depends_on(j) || p.b->depends_on(i) || p.a->indices.size() != 2 ||
      p.b->indices.size() != 2)
    return "not a product of two matrices";
  p.a_row = dag::plain_dimension(*p.a, i), p.a_k = dag::plain_dimension(*p.a, k);
  p.b_k = dag::plain_dimension(*p.b, k), p.b_col = dag::plain_dimension(*p.b, j);
  if (std::min({p.a_row, p.a_k, p.b_k, p.b_col}) < 0) return "not a product of two matrices";
  const DataType t = op.output(0).dtype();
  if ((t != f32 && t != f64) || p.a->tensor.dtype() != t || p.b->tensor.dtype() != t)
    return "its sums of operands would be rounded to a short type, or are of whole numbers";
  if (p.rows % 2 != 0 || p.cols % 2 != 0 || p.depth % 2 != 0 ||
      std::min({p.rows, p.cols, p.depth}) < 2)
    return "its matrices have no even quarters";
  *out = p;
  return "";
}

std::string why_not(const RewriteSite& site) {
  Product p;
  return match(site, &p);
}

using Terms = std::array<Expr, kProducts>;

/// The term that `q` names.
Expr choose(const Expr& q, const Terms& terms) {
  Expr out = terms.back();
  for (std::size_t i = terms.size() - 1; i-- > 0;)
    out = select(q == Expr(static_cast<int64_t>(i)), terms[i], out);
  return out;
}

Tensor sums_of(const Operation& op, const Access& from, int row, int col, int64_t rows,
               int64_t cols, bool of_a) {
  return compute(
      {kProducts, rows / 2, cols / 2},
      [&](Axis q, Axis i, Axis j) {
        const auto quarter = [&](int64_t y, int64_t x) {
          std::vector<Expr> at(2);
          at[static_cast<std::size_t>(row)] = i + y * (rows / 2);
          at[static_cast<std::size_t>(col)] = j + x * (cols / 2);
          return from.tensor.at(at);
        };
        const Expr x11 = quarter(0, 0), x12 = quarter(0, 1), x21 = quarter(1, 0),
                   x22 = quarter(1, 1);
        if (of_a) {
          const Expr s1 = x21 + x22, s2 = s1 - x11;
          return choose(q, {x11, x12, x12 - s2, x22, s1, s2, x11 - x21});
        }
        const Expr t1 = x12 - x11, t2 = x22 - t1;
        return choose(q, {x11, x21, x22, t2 - x21, t1, t2, x22 - x12});
      },
      op.name() + (of_a ? "_s" : "_t"), "strassen", op.where());
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Product p;
  const std::string why = match(site, &p);
  HEDDLE_ICHECK(why.empty(), "strassen where it is not legal: " + why);
  const Operation& op = site.op();
  const Tensor s = sums_of(op, *p.a, p.a_row, p.a_k, p.rows, p.depth, true);
  const Tensor t = sums_of(op, *p.b, p.b_k, p.b_col, p.depth, p.cols, false);
  const Tensor products = compute(
      {kProducts, p.rows / 2, p.cols / 2},
      [&](Axis q, Axis i, Axis j) {
        const Axis k = reduce_axis(p.depth / 2, op.reduce_axes()[0].name(), op.where());
        return sum_in(s.dtype(), s(q, i, k) * t(q, k, j), {k});
      },
      op.name() + "_products", "strassen", op.where());
  // The first stage has the quarters as axes, so that each quarter is a case of its own. The second
  // one has the axes of the declaration.
  const Tensor quarters = compute(
      {2, 2, p.rows / 2, p.cols / 2},
      [&](Axis y, Axis x, Axis i, Axis j) {
        const auto of = [&](int64_t q) { return products(q - 1, i, j); };
        const Expr u2 = of(1) + of(6), u3 = u2 + of(7);
        return select(y == 0, select(x == 0, of(1) + of(2), u2 + of(5) + of(3)),
                      select(x == 0, u3 - of(4), u3 + of(5)));
      },
      op.name() + "_quarters", "strassen", op.where());
  return {compute(
      op.output(0).shape(),
      [&](Axis i, Axis j) {
        return quarters(floordiv(i, p.rows / 2), floordiv(j, p.cols / 2), floormod(i, p.rows / 2),
                        floormod(j, p.cols / 2));
      },
      op.name(), op.tag(), op.where())};
}

// For operands whose elements are independent and of one variance: S2 and T2 are sums of three, S4
// and T4 of four elements, all others of two or one. The worst result adds up products of 1, 9, 4
// and 4 times the variance of the direct ones, over half the terms.
double error_growth(const RewriteSite&) { return std::sqrt((1.0 + 9 + 4 + 4) / 2); }

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  Product p;
  match(site, &p);
  if (std::min({p.rows, p.cols, p.depth}) < kSmall)
    return {.why_not = "its matrices are too small to pay for the additions"};
  // `moved` is the number of bytes that the sums of quarters read and write.
  const double bytes = site.op().output(0).dtype().bytes();
  const auto m = static_cast<double>(p.rows), n = static_cast<double>(p.cols),
             k = static_cast<double>(p.depth);
  const double moved = bytes * ((1 + 7 / 4.0) * (m * k + k * n) + (7 / 4.0 + 3) * m * n);
  const double flops = 2 * m * n * k;
  // Floating-point operations that a machine does while it moves one byte: about 15 on a GPU, 8 for
  // each core of a CPU.
  const double flops_a_byte = target.is_cuda() ? 15 : 8.0 * std::max(1, target.cores);
  const double speedup = flops / (flops * 7 / 8 + moved * flops_a_byte);
  // Results that are small beside others in their row have larger relative errors. The rewrite is
  // therefore chosen by measurements only.
  return {std::min(1.0, speedup), "for the tuner to try: seven products for eight"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "strassen",
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = error_growth,
                              .estimate = estimate});

}  // namespace
}  // namespace heddle
