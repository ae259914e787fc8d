// Computes a product of f32 by the units of a GPU for tf32, as three products (tf32_parts.h):
//
//   result[i..] = sum over k.. of A[i.., k] * B[i.., k]                              (before)
//
//   A'[i.., q]  = tf32 parts of A[i.., k], with the depth innermost
//   B'[i.., q]  = tf32 parts of B[i.., k], likewise
//   result[i..] = sum over q.. of round_tf32(A'[i.., q]) * round_tf32(B'[i.., q])    (after)
//
// Convolutions have the channels as their depth; their windows stay summed axes. Constants are split
// once, and kept beside the declared ones.
#include <algorithm>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/gpu_rates.h"
#include "dag/rewrites/rewrite_parts.h"
#include "dag/rewrites/tf32_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/factors.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

struct Split {
  const Access* operands[2];
  std::size_t depth = 0;  ///< position among the reduce axes
  int64_t length = 0;     ///< of the longer depth
};

WhyNot match(const RewriteSite& site, Split* out) {
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, out->operands); !why.empty())
    return why;
  const Operation& op = site.op();
  const DataType type = op.output(0).dtype();
  if (type != f32 || out->operands[0]->tensor.dtype() != f32 ||
      out->operands[1]->tensor.dtype() != f32)
    return WhyNot::other_kind("a product of f32");
  if (rounds_factors(op.bodies()[0].as<Reduce>()->sources[0]))
    return "its factors are tf32 already";
  int64_t longest = 0;
  for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
    const Axis& k = op.reduce_axes()[r];
    if (dag::plain_dimension(*out->operands[0], k) < 0 ||
        dag::plain_dimension(*out->operands[1], k) < 0 || k.extent() <= longest)
      continue;
    longest = k.extent();
    out->depth = r;
  }
  if (longest == 0) return "no summed axis alone indexes a dimension of both operands";
  // TMA loads rows of 128 bytes, which must not have channels of two taps.
  constexpr int64_t kBoxRow = 32;
  const bool windows = op.reduce_axes().size() > 1;
  out->length = tf32::depth_of_parts(longest, windows ? kBoxRow : tf32::kRun);
  return "";
}

WhyNot why_not(const RewriteSite& site) {
  Split s;
  return match(site, &s);
}

Tensor parts_of(const Operation& op, const Split& s, int o) {
  const Access& from = *s.operands[o];
  const Axis& k = op.reduce_axes()[s.depth];
  const auto d = static_cast<std::size_t>(dag::plain_dimension(from, k));
  std::vector<int64_t> extents = dag::moved_last(from.tensor.extents(), d);
  extents.back() = s.length;
  return compute(
      extents,
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(i.begin(), i.end());
        const Expr term = tf32::term_at(i.back());
        at.back() = term;
        std::rotate(at.begin() + static_cast<std::ptrdiff_t>(d), at.end() - 1, at.end());
        const Expr part = tf32::part_at(i.back(), from.tensor.at(at),
                                        o == 0 ? tf32::Side::Left : tf32::Side::Right);
        return tf32::depth_of_parts(k.extent()) == s.length && k.extent() % tf32::kRun == 0
                   ? part
                   : select(term < Expr(k.extent()), part, make_const(f32, 0));
      },
      op.name() + (o == 0 ? "_parts_left" : "_parts_right"), "split_tf32", op.where());
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Split s;
  const WhyNot why = match(site, &s);
  HEDDLE_ICHECK(why.empty(), "split_tf32 where it is not legal: " + why.text());
  const Operation& op = site.op();
  const Tensor parts[2] = {parts_of(op, s, 0), parts_of(op, s, 1)};
  return {compute(
      op.output(0).extents(),
      [&](const std::vector<Axis>& i) {
        const auto [over, to] = dag::new_axes(op, i, [&](std::size_t r) {
          return Expr(r == s.depth ? s.length : op.reduce_axes()[r].extent());
        });
        Expr factors[2];
        for (const int o : {0, 1}) {
          Access as = *s.operands[o];
          as.indices = dag::moved_last(as.indices, static_cast<std::size_t>(dag::plain_dimension(
                                                       as, op.reduce_axes()[s.depth])));
          factors[o] = round_tf32(dag::read_at(parts[o], as, to));
        }
        return sum_in(f32, factors[0] * factors[1], over);
      },
      op.name(), op.tag(), op.where())};
}

double terms_of(const Operation& op) {
  double terms = 1;
  for (const Axis& r : op.reduce_axes()) terms *= static_cast<double>(r.extent());
  return terms;
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  // (H200: products of 80x256x16384, 384x1024x2696 and a convolution of 17 channels, from which 1.13 to 1.18 was expected, took
  // 5.1, 1.4 and 1.5 of the time; those from which 1.43 and more was expected 0.43 to 0.82.)
  constexpr double kMostBytes = 2e9;       // of the parts of both operands
  constexpr double kMostConstant = 256e6;  // of a constant, whose parts stay in memory
  if (!target.is_cuda() || !target.gpu.has_wgmma())
    return {.why_not = "only wgmma has a rate of tf32 to spare, with sums of tiles in f32"};
  if (dag::is_of_attention(site.dag, site.stage))
    return {.why_not = "one kernel computes attention"};
  Split s;
  match(site, &s);
  const Operation& op = site.op();
  double rows = 1, cols = 1, batch = 1;
  for (const Axis& a : op.axes()) {
    const bool left = s.operands[0]->depends_on(a), right = s.operands[1]->depends_on(a);
    (left && right ? batch : left ? rows : cols) *= static_cast<double>(a.extent());
  }
  const double terms = terms_of(op),
               long_terms = terms * static_cast<double>(s.length) /
                            static_cast<double>(op.reduce_axes()[s.depth].extent());
  const dag::ProductRates rates = dag::product_rates(target.gpu);
  double copies = 0, parts = 0, constant = 0;
  for (const int o : {0, 1}) {
    const auto bytes = static_cast<double>(s.operands[o]->tensor.size() * 4);
    parts += bytes * long_terms / terms;
    if (dag::is_constant_operand(site.dag, *s.operands[o])) {
      constant = std::max(constant, bytes);
      continue;
    }
    copies += rates.kernel + rates.copied(4 * bytes);
  }
  const double direct = rates.kernel + rates.product(f32, batch, rows, cols, terms),
               split = rates.kernel + copies + rates.tf32_product(batch, rows, cols, long_terms);
  const double gain = direct / split;
  if (std::min(rows, cols) < dag::kLeastSide || gain < dag::gpu_constants(site).tf32_gain ||
      parts > kMostBytes || constant > kMostConstant)
    return {1, "three products of tf32, and copies of the operands"};
  return {gain, "units for tf32 compute three products in less time than threads one of f32"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "split_tf32",
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth =
                                  [](const RewriteSite& site) {
                                    return tf32::error_growth(terms_of(site.op()));
                                  },
                              .estimate = estimate});

}  // namespace
}  // namespace heddle
