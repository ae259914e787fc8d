// Cuts a long sum of products into parts (decompose-K, split-K). The partial sums are a contraction
// with one more batch axis, and a second stage adds them.
//
//   P[q, i, j] = sum over k < K / parts of f(i, j, q * K / parts + k)
//   result[i, j] = sum over q of P[q, i, j]
//
// The meta-template for contractions (reduction = split_k) cuts a sum into one or two parts for
// each core, by a step of the schedule. Here the parts are a batch axis of a graph. There may be
// any number of them, each with the blocks, packing and tiles of a contraction of its own, and the
// epilogue is fused with their sum. Sums of sums do not round worse than one long sum.
#include <algorithm>

#include "dag/convolution.h"
#include "heddle/dag/alternatives.h"

namespace heddle {
namespace {

constexpr int64_t kShortSum = 1024;      // no gain below
constexpr int64_t kManyResults = 65536;  // enough tasks for any machine

/// The longest reduce axis (position).
std::size_t longest(const Operation& op) {
  const auto& axes = op.reduce_axes();
  return static_cast<std::size_t>(
      std::max_element(axes.begin(), axes.end(),
                       [](const Axis& a, const Axis& b) { return a.extent() < b.extent(); }) -
      axes.begin());
}

std::string why_not(const RewriteSite& site) {
  const Access* operands[2];
  if (std::string why = dag::match_contraction(site.dag, site.stage, operands); !why.empty())
    return why;
  const int64_t k = site.op().reduce_axes()[longest(site.op())].extent();
  if (k < kShortSum) return "not a long sum: " + std::to_string(k) + " terms";
  const int64_t points = site.dag.info(site.stage).points;
  if (points > kManyResults)
    return "its " + std::to_string(points) + " results are enough to share out";
  if (k % site.values[0] != 0) return std::to_string(k) + " terms are no whole parts";
  return "";
}

std::vector<Tensor> apply(const RewriteSite& site) {
  const Operation& op = site.op();
  const std::size_t cut = longest(op);
  const int64_t parts = site.values[0], length = op.reduce_axes()[cut].extent() / parts;
  Shape shape{parts};
  for (const Axis& a : op.axes()) shape.push_back(a->extent);
  const Expr& product = op.bodies()[0].as<Reduce>()->sources[0];
  const Tensor partial = compute(
      shape,
      [&](const std::vector<Axis>& i) {
        std::vector<VarBinding> to;
        std::vector<Axis> over;
        for (std::size_t a = 0; a < op.axes().size(); ++a)
          to.push_back({op.axes()[a].var(), i[a + 1]});
        for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
          const Axis& old = op.reduce_axes()[r];
          over.push_back(
              reduce_axis(r == cut ? Expr(length) : old->extent, old.name(), op.where()));
          to.push_back({old.var(), r == cut ? i[0] * length + over.back() : Expr(over.back())});
        }
        return sum_in(product.dtype(), substitute(product, to), over);
      },
      op.name() + "_parts", "split_k", op.where());
  return {compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        const Axis q = reduce_axis(parts, "part", op.where());
        std::vector<Expr> at{q};
        at.insert(at.end(), i.begin(), i.end());
        return sum_in(partial.dtype(), partial.at(at), {q});
      },
      op.name(), op.tag(), op.where())};
}

RewriteEstimate estimate(const RewriteSite&, const Target&) {
  // The split_k reduction of the template is as good as a static choice; the tuner tries this one.
  return {1, "for the tuner to try: no fewer operations, more to share out"};
}

HEDDLE_REGISTER_REWRITE_RULE({"split_k",
                              {{"parts", {4, 16}}},
                              why_not,
                              apply,
                              [](const RewriteSite&) { return 1.0; },
                              estimate});

}  // namespace
}  // namespace heddle
