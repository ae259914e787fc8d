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
// each tap of the window is then one short vector.
//
// For types of less than four bytes, multiples of 16 bytes are those that TMA can load: there only
// axes grow along which an operand lies in memory.
#include <algorithm>
#include <optional>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/attention.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr int64_t kMostGrowth = 8;         // an axis grows by at most an eighth
constexpr int64_t kMostChannelGrowth = 1;  // few channels at most double
constexpr double kReadOften = 64;          // reads of an element that pay for its copy

/// The padded extents of the axes, in the order of the stage's; the axis's own where it stays.
struct Padding {
  std::vector<int64_t> spatial, reduce;
  const Access* operands[2];
};

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

/// Whether rows of `a` in memory run along `axis`.
bool lies_along(const Access& a, const Axis& axis) {
  return dag::plain_dimension(a, axis) + 1 == static_cast<int>(a.indices.size());
}

/// Whether the stage sums over windows, and `axis` over their channels, which are fewer than `to`
/// and lie side by side in an operand.
bool is_few_channels(const Operation& op, const Access* const operands[2], const Axis& axis,
                     int64_t to) {
  return op.reduce_axes().size() > 1 && axis.extent() < to &&
         (lies_along(*operands[0], axis) || lies_along(*operands[1], axis));
}

constexpr int64_t kBoxPitch = 16;     // bytes: TMA loads rows of multiples of it
constexpr int64_t kShortestCopy = 4;  // bytes that cp.async copies at least
constexpr int64_t kShortVector = 8;   // bytes of a vector of few channels

bool is_narrow(const Access& a) { return a.tensor.dtype().bytes() < 4; }

WhyNot match(const RewriteSite& site, Padding* out) {
  Padding p;
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, p.operands); !why.empty())
    return why;
  const Operation& op = site.op();
  const int64_t to = site.values[0];
  if (to < 2) return "no extent is padded to multiples of " + std::to_string(to);
  const bool for_boxes =
      is_narrow(*p.operands[0]) && to * p.operands[0]->tensor.dtype().bytes() == kBoxPitch;
  bool any = false;
  const auto pad = [&](const Axis& a, bool in_both) {
    const bool wanted =
        !for_boxes || lies_along(*p.operands[0], a) || lies_along(*p.operands[1], a);
    const bool can = wanted && can_pad(p.operands, a) &&
                     (!in_both || (p.operands[0]->depends_on(a) && p.operands[1]->depends_on(a)));
    const bool few = in_both && is_few_channels(op, p.operands, a, to);
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
  if (!target.is_cuda()) return out;
  out.push_back({64});  // a tile of a block
  const Operation& op = site.op();
  const auto few = [&](const Axis& a) {
    return is_few_channels(op, operands, a, kShortVector / bytes);
  };
  if (bytes < 4 && std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(), few))
    out.push_back({kShortVector / bytes});
  return out;
}

/// Whether the stage is one of the two products of an attention, which one kernel computes.
bool is_of_attention(const ComputeDag& dag, int stage) {
  for (int s = 0; s < dag.size(); ++s) {
    const std::optional<Attention> a = find_attention(dag, s);
    if (a && (a->weighted == stage || a->products == stage)) return true;
  }
  return false;
}

/// How many times faster wgmma computes the product from padded copies than mma.sync does from rows
/// that TMA cannot load; 0 where TMA can load both operands as they are, or cannot even then.
double gain_of_boxes(const RewriteSite& site, const Padding& p, double points,
                     const Target& target) {
  const GpuConstants& by = dag::gpu_constants(site);
  const Operation& op = site.op();
  if (!target.is_cuda() || !target.gpu.has_wgmma() || p.reduce.size() != 1) return 0;
  double copies = 0;
  bool helps = false, by_elements = false;
  for (const Access* a : p.operands) {
    const int64_t bytes = a->tensor.dtype().bytes(), row = a->tensor.extents().back() * bytes;
    const bool along_depth = lies_along(*a, op.reduce_axes()[0]);
    if (!is_narrow(*a) || (bytes == 1 && !along_depth)) return 0;
    if (row % kBoxPitch == 0) continue;
    int64_t padded_row = along_depth ? p.reduce[0] : 0;
    for (std::size_t i = 0; i < op.axes().size(); ++i) {
      if (lies_along(*a, op.axes()[i])) padded_row = p.spatial[i];
    }
    if (padded_row * bytes % kBoxPitch != 0) return 0;
    helps = true;
    by_elements = by_elements || row % kShortestCopy != 0;
    if (!dag::is_constant_operand(site.dag, *a))
      copies +=
          by.pad_kernel + 2 * static_cast<double>(a->tensor.size() * bytes) / by.pad_copy_rate;
  }
  if (!helps || is_of_attention(site.dag, site.stage)) return 0;
  const double bytes = p.operands[0]->tensor.dtype().bytes(), work = points * bytes / 2;
  const double steps = by_elements ? static_cast<double>(op.reduce_axes()[0].extent()) : 0;
  return (by.pad_kernel + std::max(work / by.pad_element_rate, steps * by.pad_step)) /
         (by.pad_kernel + work / by.pad_box_rate + copies);
}

/// The number of channels, where the padding makes a vector of each tap's few channels; else 0.
int64_t few_channels(const Operation& op, const Padding& p) {
  for (std::size_t r = 0; r < p.reduce.size(); ++r) {
    const Axis& axis = op.reduce_axes()[r];
    if (p.reduce[r] > axis.extent() && is_few_channels(op, p.operands, axis, p.reduce[r]))
      return axis.extent();
  }
  return 0;
}

/// Whether a tile holds the whole sum, and the channels of the image lie side by side: its elements
/// wait once, whatever their number. (32 images of 224x224, 3 channels, on an H100: 3x3 by steps of
/// 2 with 32 filters takes 24.8 us so, and 35.7 from a copy by vectors; 3x3 with 64 filters 201 and
/// 223; 4x4 by steps of 4 29 and 29; 5x5 173 and 137.)
bool waits_once(const RewriteSite& site, const Padding& p) {
  constexpr int64_t kOneTile = 64;
  const std::vector<Axis>& over = site.op().reduce_axes();
  int64_t sum = 1;
  bool side_by_side = false;
  for (std::size_t r = 0; r < over.size(); ++r) {
    sum *= over[r].extent();
    for (const Access* a : p.operands)
      side_by_side |= p.reduce[r] > over[r].extent() && lies_along(*a, over[r]) &&
                      !dag::is_constant_operand(site.dag, *a);
  }
  return side_by_side && sum <= kOneTile;
}

/// How many times faster a GPU computes windows of few channels when each tap is a vector; 0 where
/// there are no such windows.
double gain_of_channels(const RewriteSite& site, const Padding& p, double points,
                        const Target& target) {
  const GpuConstants& by = dag::gpu_constants(site);
  const Operation& op = site.op();
  const int64_t channels = few_channels(op, p);
  const int64_t bytes = p.operands[0]->tensor.dtype().bytes();
  // Whole vectors are not loaded one by one.
  if (channels == 0 || channels * bytes % kShortVector == 0 || !target.is_cuda() ||
      target.gpu.sm() < 80)
    return 0;
  if (waits_once(site, p)) return 0;
  double copies = 0, loads = 0;
  for (const Access* a : p.operands) {
    const auto elements = static_cast<double>(a->tensor.size());
    if (dag::is_constant_operand(site.dag, *a)) continue;
    double reuse = 1;  // results that a loaded element contributes to, in one block
    for (const Axis& x : op.axes()) {
      if (!a->depends_on(x)) reuse *= static_cast<double>(x.extent());
    }
    loads += points / reuse;
    copies += by.pad_kernel + 2 * elements * a->tensor.dtype().bytes() / by.pad_copy_rate;
  }
  return (by.pad_kernel + loads / by.pad_load_rate) /
         (by.pad_kernel + loads / static_cast<double>(channels) / by.pad_load_rate + copies);
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  const double least_gain = dag::gpu_constants(site).pad_gain;
  Padding p;
  match(site, &p);
  double points = 1;  // points of the iteration space
  for (const auto* axes : {&site.op().axes(), &site.op().reduce_axes()}) {
    for (const Axis& a : *axes) points *= static_cast<double>(a.extent());
  }
  if (const double gain = gain_of_boxes(site, p, points, target); gain > least_gain)
    return {gain, "TMA loads rows of 16 bytes, for a copy of the operands"};
  if (const double gain = gain_of_channels(site, p, points, target); gain > least_gain)
    return {gain, "the few channels of each tap are one vector, for a copy of the image"};
  if (!target.is_cuda() && few_channels(site.op(), p) > 0)
    return {.why_not = "CPUs pack the operands of convolutions by themselves"};
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
