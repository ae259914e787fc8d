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
//
// A sum over few channels that lie side by side, such as the colours of an image, may grow by more:
// each tap of the window is then one short vector, or, of bytes on a CPU, a group that one instruction
// adds up.
//
// For types of less than four bytes, multiples of 16 bytes are those that TMA can load: there only
// axes grow along which an operand lies in memory. Multiples of 128 bytes are rows of its boxes: of
// sums over windows the channels grow to them, and TMA writes the zeros behind those of the image.
#include <algorithm>
#include <optional>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/pad_gains.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/instruction/instruction.h"
#include "heddle/support/error.h"
#include "ir/linear.h"

namespace heddle {

using dag::Padding;

namespace {

constexpr int64_t kMostGrowth = 8;         // an axis grows by at most an eighth
constexpr int64_t kMostChannelGrowth = 1;  // few channels at most double
constexpr double kReadOften = 64;          // reads of an element that pay for its copy
// Of 3 channels, in place of pairs. (7x7 by steps of 2, 64 filters over 224x224, u8 by i8, on a Zen 5: 2.6.)
constexpr double kGainOfGroups = 2;

int64_t padded(int64_t extent, int64_t to, int64_t most_growth = kMostGrowth) {
  const int64_t up = round_up(extent, to);
  return (up - extent) * most_growth <= extent ? up : extent;
}

/// Whether each operand that depends on the axis reads it as a dimension of its own.
bool can_pad(const Access* const operands[2], const Axis& axis) {
  return std::all_of(operands, operands + 2, [&](const Access* a) {
    return !a->depends_on(axis) || dag::plain_dimension(*a, axis) >= 0;
  });
}

constexpr int64_t kGroup = 4;  // products of bytes that one instruction of a CPU adds up

/// Whether an instruction of a CPU adds up groups of products of such bytes.
bool has_groups(const Access* const operands[2], const Target& target) {
  const DataType a = operands[0]->tensor.dtype(), b = operands[1]->tensor.dtype();
  return !target.is_cuda() && a.bits == 8 && b.bits == 8 && a.is_integral() && b.is_integral() &&
         adds_products(target, i32, a, b, kGroup);
}

WhyNot match(const RewriteSite& site, Padding* out) {
  Padding p;
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, p.operands); !why.empty())
    return why;
  const Operation& op = site.op();
  const int64_t to = site.values[0];
  if (to < 2) return "no extent is padded to multiples of " + std::to_string(to);
  const bool for_boxes = dag::is_narrow(*p.operands[0]) &&
                         to * p.operands[0]->tensor.dtype().bytes() == dag::kBoxPitch;
  const bool for_windows = dag::is_for_windows(op, *p.operands[0], to);
  bool any = false;
  const auto pad = [&](const Axis& a, bool in_both) {
    const bool wanted =
        (!for_boxes && !for_windows) ||
        ((dag::lies_along(*p.operands[0], a) || dag::lies_along(*p.operands[1], a)) &&
         (in_both || !for_windows));
    const bool can = wanted && can_pad(p.operands, a) &&
                     (!in_both || (p.operands[0]->depends_on(a) && p.operands[1]->depends_on(a)));
    const bool few = for_windows || (in_both && dag::is_few_channels(op, p.operands, a, to));
    const int64_t e = a.extent(),
                  up = can ? padded(e, to, few ? kMostChannelGrowth : kMostGrowth) : e;
    any = any || up > e;
    return up;
  };
  for (const Axis& a : op.axes()) p.spatial.push_back(pad(a, false));
  // Zero times infinity or NaN is NaN, so both factors must be padded with zeros.
  for (const Axis& k : op.reduce_axes()) p.reduce.push_back(pad(k, true));
  if (!any)
    return WhyNot::other_kind("of bad sizes: no extent becomes a multiple of " +
                              std::to_string(to) + " by growing an eighth");
  *out = p;
  return "";
}

WhyNot why_not(const RewriteSite& site) {
  Padding p;
  return match(site, &p);
}

/// What `from` reads at indices `i`: of a stage that only pads with zeros, what that reads, and where.
struct Unpadded {
  Expr inside;  ///< undefined: everywhere
  Expr value;
};
Unpadded unpadded(const Access& from, const std::vector<Axis>& i) {
  const Operation& op = *from.tensor.op();
  const Select* pads = !op.is_placeholder() && op.bodies().size() == 1 && !op.is_reduction()
                           ? op.bodies()[0].as<Select>()
                           : nullptr;
  if (!pads || pads->on_true.kind() != ExprKind::Load || !is_const(pads->on_false, 0) ||
      has_load(pads->condition))
    return {{}, from.tensor(i)};
  std::vector<VarBinding> bind;
  for (std::size_t d = 0; d < i.size(); ++d) bind.push_back({op.axes()[d].var(), Expr(i[d])});
  return {substitute(pads->condition, bind), substitute(pads->on_true, bind)};
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
        const Unpadded read = unpadded(from, i);
        Expr inside = read.inside;
        for (std::size_t d = 0; d < i.size(); ++d) {
          if (!until[d]) continue;
          const Expr own = i[d] < Expr(*until[d]);
          inside = inside.defined() ? Expr(logical_and(inside, own)) : own;
        }
        return select(inside, read.value, make_const(from.tensor.dtype(), 0));
      },
      name, "pad_product", op.where());
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Padding p;
  const WhyNot why = match(site, &p);
  HEDDLE_ICHECK(why.empty(), "pad_product where it is not legal: " + why.text());
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
        const auto [over, to] =
            dag::new_axes(op, i, [&](std::size_t r) { return Expr(p.reduce[r]); });
        Expr factors[2];
        for (const int o : {0, 1})
          factors[o] =
              dag::factor_of(op, *p.operands[o], dag::read_at(operands[o], *p.operands[o], to));
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
  const Operation& op = site.op();
  const auto has_few = [&](int64_t to) {
    return std::ranges::any_of(
        op.reduce_axes(), [&](const Axis& a) { return dag::is_few_channels(op, operands, a, to); });
  };
  if (has_groups(operands, target) && has_few(kGroup)) out.push_back({kGroup});
  if (!target.is_cuda()) return out;
  out.push_back({64});  // a tile of a block
  if (bytes < 4 && has_few(dag::short_vector(bytes))) out.push_back({dag::short_vector(bytes)});
  return out;
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  const double least_gain = dag::gpu_constants(site).pad_gain;
  Padding p;
  match(site, &p);
  double points = 1;  // points of the iteration space
  for (const auto* axes : {&site.op().axes(), &site.op().reduce_axes()}) {
    for (const Axis& a : *axes) points *= static_cast<double>(a.extent());
  }
  if (const double gain = dag::gain_of_boxes(site, p, points, target); gain > least_gain)
    return {gain, "TMA loads rows of 16 bytes, for a copy of the operands"};
  if (const double gain = dag::gain_of_channels(site, p, points, target); gain > least_gain)
    return {gain, "the few channels of each tap are one vector, for a copy of the image"};
  if (const double gain = dag::gain_of_windows(site, p, points, target); gain > least_gain)
    return {gain, "TMA loads windows of whole rows, with zeros behind the channels"};
  const bool few = !target.is_cuda() && dag::few_channels(site.op(), p) > 0;
  if (few && site.values[0] == kGroup && has_groups(p.operands, target))
    return {kGainOfGroups,
            "one instruction adds up the channels of a tap, for a copy of the image"};
  if (few) return {.why_not = "CPUs pack the operands of convolutions by themselves"};
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
