// Products of f32 by three products of bf16, which matrix units multiply many times as fast (Henry,
// Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations", ARITH 2019). A float is the sum of two bf16 but for about 2^-18 of it:
//
//   hi(x) = bf16(x), lo(x) = bf16(x - hi(x))
//   a b   = hi(a) hi(b) + hi(a) lo(b) + lo(a) hi(b)               without lo(a) lo(b)
//
// The three products are one, over three times the terms. A reduce axis k of K terms, which is a
// dimension of both operands, becomes an axis q of 3 K:
//
//   A3[i, q] = hi, hi, lo of a[i, q mod K]       for q / K = 0, 1, 2
//   B3[q, j] = hi, lo, hi of b[q mod K, j]       once where b is constant
//   result[i, j] = sum over q of f32(A3[i, q]) * f32(B3[q, j])
//
// An infinite or NaN operand gives NaN, and operands above the largest bf16 (3.39e38) overflow.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dag/convolution.h"
#include "dag/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr int64_t kProducts = 3;

struct Operands {
  const Access* a = nullptr;
  const Access* b = nullptr;
  std::size_t axis = 0;      ///< the reduce axis that becomes three times as long
  int a_dim = 0, b_dim = 0;  ///< the dimensions that it indexes
};

std::string match(const RewriteSite& site, Operands* out) {
  const Access* operands[2];
  if (std::string why = dag::match_contraction(site.dag, site.stage, operands); !why.empty())
    return why;
  const Operation& op = site.op();
  for (const DataType t :
       {operands[0]->tensor.dtype(), operands[1]->tensor.dtype(), op.output(0).dtype()}) {
    if (t != f32) return "not a sum of products of f32";
  }
  int64_t longest = 0;
  for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
    const Axis& k = op.reduce_axes()[r];
    const int a = dag::plain_dimension(*operands[0], k), b = dag::plain_dimension(*operands[1], k);
    if (a < 0 || b < 0 || k.extent() <= longest) continue;
    longest = k.extent();
    *out = {operands[0], operands[1], r, a, b};
  }
  return longest > 0 ? "" : "none of its reductions is a dimension of both operands";
}

std::string why_not(const RewriteSite& site) {
  Operands operands;
  return match(site, &operands);
}

/// The operand in three parts along `dim`. Part `low` has the low halves.
Tensor parts_of(const Operation& op, const Tensor& from, int dim, int64_t low) {
  Shape shape = from.shape();
  const auto d = static_cast<std::size_t>(dim);
  const int64_t length = from.extents()[d];
  shape[d] = kProducts * length;
  return compute(
      shape,
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(i.begin(), i.end());
        at[d] = floormod(i[d], length);
        const Expr x = from.at(at), high = cast(bf16, x);
        return select(floordiv(i[d], length) == low, cast(bf16, x - cast(f32, high)), high);
      },
      from.name() + "_parts", "bf16x3", op.where());
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Operands operands;
  const std::string why = match(site, &operands);
  HEDDLE_ICHECK(why.empty(), "bf16x3 where it is not legal: " + why);
  const Operation& op = site.op();
  const Tensor a = parts_of(op, operands.a->tensor, operands.a_dim, 2);
  const Tensor b = parts_of(op, operands.b->tensor, operands.b_dim, 1);
  return {compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Axis> reduce;
        std::vector<VarBinding> to;
        for (std::size_t x = 0; x < i.size(); ++x) to.push_back({op.axes()[x].var(), i[x]});
        for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
          const Axis& k = op.reduce_axes()[r];
          const Expr extent = k->extent;
          reduce.push_back(
              reduce_axis(r == operands.axis ? kProducts * extent : extent, k.name(), op.where()));
          to.push_back({k.var(), reduce.back()});
        }
        const auto read = [&](const Tensor& t, const Access& as) {
          return cast(f32, dag::read_at(t, as, to));
        };
        return sum(read(a, *operands.a) * read(b, *operands.b), reduce);
      },
      op.name(), op.tag(), op.where())};
}

// Measured against sums of f32 one term after the other, for normal operands: 177 for one term, 59
// for 16, 16 for 256, 4.5 for 4096. The errors of the operands are independent from term to term,
// while each addition of the direct form rounds the sum of all terms before it.
double error_growth(const RewriteSite& site) {
  double terms = 1;
  for (const Axis& k : site.op().reduce_axes()) terms *= static_cast<double>(k.extent());
  return std::max(1.0, 280 / std::sqrt(terms));
}

// Figures of a Xeon with AMX and AVX-512: how much faster one of the three products is than the
// direct form, and the time to cut one element of an operand in parts, in multiply-adds of f32.
// Where no operand is constant, one of them is also packed.
constexpr double kTilesOverVectors = 5.5;
constexpr double kProductsAnElement = 24, kProductsAPackedElement = 170;
constexpr int64_t kLeastRows = 16, kLeastDepth = 32;

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  Operands operands;
  match(site, &operands);
  if (target.is_cuda()) return {.why_not = "GPUs have tf32 for this (allow_tf32)"};
  if (!target.has("amx-bf16")) return {.why_not = "the target has no tiles of bf16"};
  double depth = 1, cut = 0, packed = std::numeric_limits<double>::infinity();
  for (const Axis& k : site.op().reduce_axes()) depth *= static_cast<double>(k.extent());
  const auto points = static_cast<double>(site.dag.info(site.stage).points);
  if (points < kLeastRows * kLeastRows || depth < kLeastDepth)
    return {.why_not = "its matrices are smaller than a tile"};
  for (const Access* operand : {operands.a, operands.b}) {
    double n = dag::is_constant_operand(site.dag, *operand) ? 0 : 1;
    for (const int64_t extent : operand->tensor.extents()) n *= static_cast<double>(extent);
    cut += n;
    packed = std::min(packed, n);
  }
  const double elements = kProductsAnElement * cut + kProductsAPackedElement * packed;
  return {1 / (kProducts / kTilesOverVectors + elements / (points * depth)),
          "three products of bf16 by tiles"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "bf16x3",
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = error_growth,
                              .estimate = estimate,
                              .numerics = Numerics::Approximate});

}  // namespace
}  // namespace heddle
