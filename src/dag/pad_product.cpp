// Pads a product: extents that vectors, tiles or 16-byte copies do not divide are rounded up, and
// the results beyond the original extents are dropped.
//
//   result[i, j] = sum over k < K of A[i, k] * B[k, j]                              (before)
//
//   A'[i, k]     = A[i, k] where i < M and k < K, else 0        of M' x K' elements
//   B'[k, j]     = B[k, j] where k < K and j < N, else 0        of K' x N' elements
//   P[i, j]      = sum over k < K' of A'[i, k] * B'[k, j]                           (after)
//   result[i, j] = P[i, j]                                      of M x N elements
//
// An operand without a padded axis is read as it is. The terms that are added are zeros.
#include <algorithm>
#include <optional>

#include "dag/convolution.h"
#include "dag/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr int64_t kMostGrowth = 8;  // an axis grows by at most an eighth
constexpr double kReadOften = 64;   // reads of an element that pay for its copy

/// The padded extents of the axes, in the order of the stage's; the axis's own where it stays.
struct Padding {
  std::vector<int64_t> spatial, reduce;
  const Access* operands[2];
};

int64_t padded(int64_t extent, int64_t to) {
  const int64_t up = dag::round_up(extent, to);
  return (up - extent) * kMostGrowth <= extent ? up : extent;
}

/// Whether each operand that depends on the axis reads it as a dimension of its own.
bool can_pad(const Access* const operands[2], const Axis& axis) {
  return std::all_of(operands, operands + 2, [&](const Access* a) {
    return !a->depends_on(axis) || dag::plain_dimension(*a, axis) >= 0;
  });
}

std::string match(const RewriteSite& site, Padding* out) {
  Padding p;
  if (std::string why = dag::match_contraction(site.dag, site.stage, p.operands); !why.empty())
    return why;
  const Operation& op = site.op();
  const int64_t to = site.values[0];
  if (to < 2) return "no extent is padded to multiples of " + std::to_string(to);
  bool any = false;
  const auto pad = [&](const Axis& a, bool in_both) {
    const bool can = can_pad(p.operands, a) &&
                     (!in_both || (p.operands[0]->depends_on(a) && p.operands[1]->depends_on(a)));
    const int64_t e = a.extent(), up = can ? padded(e, to) : e;
    any = any || up > e;
    return up;
  };
  for (const Axis& a : op.axes()) p.spatial.push_back(pad(a, false));
  // Zero times infinity or NaN is NaN, so both factors must be padded with zeros.
  for (const Axis& k : op.reduce_axes()) p.reduce.push_back(pad(k, true));
  if (!any)
    return "not of bad sizes: no extent becomes a multiple of " + std::to_string(to) +
           " by growing an eighth";
  *out = p;
  return "";
}

std::string why_not(const RewriteSite& site) {
  Padding p;
  return match(site, &p);
}

/// The operand with zeros beyond the extents of padded axes.
Tensor padded_operand(const Operation& op, const Access& from, const Padding& p,
                      const std::string& name) {
  std::vector<std::optional<int64_t>> until(
      from.indices.size());  // the original extent, where the axis is padded
  std::vector<int64_t> extents = from.tensor.extents();
  const auto note = [&](const std::vector<Axis>& axes, const std::vector<int64_t>& to) {
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const int d = dag::plain_dimension(from, axes[a]);
      if (d < 0 || to[a] == axes[a].extent()) continue;
      until[static_cast<std::size_t>(d)] = axes[a].extent();
      extents[static_cast<std::size_t>(d)] = to[a];
    }
  };
  note(op.axes(), p.spatial);
  note(op.reduce_axes(), p.reduce);
  if (extents == from.tensor.extents()) return from.tensor;
  return compute(
      extents,
      [&](const std::vector<Axis>& i) {
        Expr inside;
        for (std::size_t d = 0; d < i.size(); ++d) {
          if (!until[d]) continue;
          const Expr own = i[d] < Expr(*until[d]);
          inside = inside.defined() ? Expr(logical_and(inside, own)) : own;
        }
        return select(inside, from.tensor(i), make_const(from.tensor.dtype(), 0));
      },
      name, "pad_product", op.where());
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Padding p;
  const std::string why = match(site, &p);
  HEDDLE_ICHECK(why.empty(), "pad_product where it is not legal: " + why);
  const Operation& op = site.op();
  const auto* reduce = op.bodies()[0].as<Reduce>();
  const DataType type = reduce->sources[0].dtype();
  Tensor operands[2];
  for (const int o : {0, 1}) {
    operands[o] = padded_operand(op, *p.operands[o], p,
                                 op.name() + (o == 0 ? "_padded_left" : "_padded_right"));
  }
  const Tensor product = compute(
      p.spatial,
      [&](const std::vector<Axis>& i) {
        std::vector<VarBinding> to;
        std::vector<Axis> over;
        for (std::size_t a = 0; a < i.size(); ++a) to.push_back({op.axes()[a].var(), i[a]});
        for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
          over.push_back(reduce_axis(Expr(p.reduce[r]), op.reduce_axes()[r].name(), op.where()));
          to.push_back({op.reduce_axes()[r].var(), over.back()});
        }
        Expr factors[2];
        for (const int o : {0, 1})
          factors[o] = cast(type, dag::read_at(operands[o], *p.operands[o], to));
        return sum_in(type, factors[0] * factors[1], over);
      },
      op.name() + "_padded", "pad_product", op.where());
  return {compute(
      op.output(0).shape(), [&](const std::vector<Axis>& i) { return product(i); }, op.name(),
      op.tag(), op.where())};
}

/// The values are the elements of 16 bytes, which a GPU copies at once, and the lanes of a CPU's
/// vector.
std::vector<std::vector<int64_t>> suited(const RewriteSite& site, const Target& target) {
  const Access* operands[2];
  if (!dag::match_contraction(site.dag, site.stage, operands).empty()) return {{8}};
  const int bytes = operands[0]->tensor.dtype().bytes();
  const int64_t lanes = target.is_cuda() ? 16 / bytes : target.vector_lanes(bytes);
  std::vector<std::vector<int64_t>> out{{std::max<int64_t>(2, lanes)}};
  if (target.is_cuda()) out.push_back({64});  // a tile of a block
  return out;
}

RewriteEstimate estimate(const RewriteSite& site, const Target&) {
  Padding p;
  match(site, &p);
  double points = 1;  // points of the iteration space
  for (const auto* axes : {&site.op().axes(), &site.op().reduce_axes()}) {
    for (const Axis& a : *axes) points *= static_cast<double>(a.extent());
  }
  for (const Access* a : p.operands) {
    if (dag::is_constant_operand(site.dag, *a)) continue;
    if (points < kReadOften * static_cast<double>(a->tensor.size()))
      return {.why_not = "its operands are read too seldom to pay for copies"};
  }
  return {1, "for the tuner to try: whole vectors and tiles, for a copy of the operands"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "pad_product",
                              .parameters = {{"to"}},
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate,
                              .suited = suited,
                              .numerics = Numerics::Exact});

}  // namespace
}  // namespace heddle
