// Copies the operands of a product so that they lie along its depth, as a linear layer stores its
// weights:
//
//   result[i, j] = sum over k < K of A[k, i] * B[k, j]                              (before)
//
//   A'[i, k]     = A[k, i] where k < K, else 0                  of M x K' elements
//   B'[j, k]     = B[k, j] where k < K, else 0                  of N x K' elements
//   result[i, j] = sum over k < K' of A'[i, k] * B'[j, k]                           (after)
//
// K' is K rounded up to 16 bytes. An operand that lies along the depth in rows of such a length is
// read as it is. The terms that are added are zeros.
//
// Hopper's wgmma multiplies bytes, 8-bit floats and tf32 only from tiles along the depth, which TMA
// loads from rows of 16 bytes.
#include <algorithm>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr int64_t kRowBytes = 16;

struct Turned {
  const Access* operands[2];
  bool copied[2];
  int64_t depth = 0;  ///< K'
};

WhyNot match(const RewriteSite& site, Turned* out) {
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, out->operands); !why.empty())
    return why;
  const Operation& op = site.op();
  if (op.reduce_axes().size() != 1)
    return WhyNot::other_kind("a product of matrices: it sums over several axes");
  const Axis& k = op.reduce_axes()[0];
  out->depth = k.extent();
  for (const Access* a : out->operands) {
    const int64_t to = std::max<int64_t>(1, kRowBytes / a->tensor.dtype().bytes());
    out->depth = std::max(out->depth, round_up(k.extent(), to));
  }
  bool across = false;
  for (const int o : {0, 1}) {
    const Access& a = *out->operands[o];
    const int d = dag::plain_dimension(a, k);
    if (d < 0)
      return WhyNot::other_kind(
          "a product of matrices: an operand is not indexed by the summed axis alone");
    const bool along = d + 1 == static_cast<int>(a.indices.size());
    across = across || !along;
    out->copied[o] = !along || a.tensor.extents().back() != out->depth;
  }
  if (!across) return WhyNot::other_kind("transposed: both operands lie along the summed axis");
  return "";
}

WhyNot why_not(const RewriteSite& site) {
  Turned t;
  return match(site, &t);
}

Tensor copy_of(const Operation& op, const Access& from, int64_t depth, const char* suffix) {
  const auto d = static_cast<std::size_t>(dag::plain_dimension(from, op.reduce_axes()[0]));
  const int64_t end = op.reduce_axes()[0].extent();
  std::vector<int64_t> extents = dag::moved_last(from.tensor.extents(), d);
  extents.back() = depth;
  return compute(
      extents,
      [&](const std::vector<Axis>& i) {
        std::vector<Axis> at = i;
        std::rotate(at.begin() + static_cast<std::ptrdiff_t>(d), at.end() - 1, at.end());
        // The condition is there even where it always holds: a stage that only moves elements would
        // be computed where it is read.
        return select(i.back() < Expr(end), from.tensor(at), make_const(from.tensor.dtype(), 0));
      },
      op.name() + suffix, "depth_innermost", op.where());
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Turned t;
  const WhyNot why = match(site, &t);
  HEDDLE_ICHECK(why.empty(), "depth_innermost where it is not legal: " + why.text());
  const Operation& op = site.op();
  const DataType type = op.bodies()[0].as<Reduce>()->sources[0].dtype();
  Tensor operands[2];
  for (const int o : {0, 1}) {
    const Access& a = *t.operands[o];
    operands[o] =
        t.copied[o] ? copy_of(op, a, t.depth, o == 0 ? "_turned_left" : "_turned_right") : a.tensor;
  }
  return {compute(
      op.output(0).extents(),
      [&](const std::vector<Axis>& i) {
        const Axis& k = op.reduce_axes()[0];
        const Axis over = reduce_axis(Expr(t.depth), k.name(), op.where());
        std::vector<VarBinding> to{{k.var(), over}};
        for (std::size_t a = 0; a < i.size(); ++a) to.push_back({op.axes()[a].var(), i[a]});
        Expr factors[2];
        for (const int o : {0, 1}) {
          Access as = *t.operands[o];
          if (t.copied[o])
            as.indices =
                dag::moved_last(as.indices, static_cast<std::size_t>(dag::plain_dimension(as, k)));
          factors[o] = dag::factor_of(op, *t.operands[o], dag::read_at(operands[o], as, to));
        }
        return sum_in(type, factors[0] * factors[1], {over});
      },
      op.name(), op.tag(), op.where())};
}

/// Seconds of the product by each kind of matrix instruction, and of the copies, on an H200. The
/// rates are assumed from those of other products and copies there; the rewrite was not timed.
struct Seconds {
  double as_declared, from_copies, copies;
};
Seconds seconds_of(const RewriteSite& site, const Turned& t) {
  // Multiply-adds per second of 16-bit operands, of which others are a multiple: by mma.sync, whose
  // operands of bytes are turned one by one, and by wgmma. Bytes per second of a copy that
  // transposes, and seconds of a kernel besides its work.
  constexpr double kByElements = 1.2e14, kByBoxes = 2.5e14, kCopied = 1.5e12, kKernel = 2.5e-6;
  const Operation& op = site.op();
  double points = 1, copies = 0;
  for (const auto* axes : {&op.axes(), &op.reduce_axes()}) {
    for (const Axis& a : *axes) points *= static_cast<double>(a.extent());
  }
  const auto bytes = static_cast<double>(t.operands[0]->tensor.dtype().bytes());
  for (const int o : {0, 1}) {
    if (!t.copied[o] || dag::is_constant_operand(site.dag, *t.operands[o])) continue;
    copies += kKernel + 2 * static_cast<double>(t.operands[o]->tensor.size()) * bytes / kCopied;
  }
  const double work = points * bytes / 2;
  return {kKernel + work / kByElements, kKernel + work / kByBoxes, copies};
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  Turned t;
  match(site, &t);
  const DataType type = t.operands[0]->tensor.dtype();
  if (!target.is_cuda() || !target.gpu.has_wgmma())
    return {.why_not = "only wgmma needs operands along the depth"};
  if (type == f32)
    return {1, "for the tuner to try where products may round to tf32: wgmma takes it only so"};
  if (type.bytes() != 1) return {.why_not = "wgmma takes this type as it lies, or not at all"};
  const Seconds s = seconds_of(site, t);
  const double gain = s.as_declared / (s.from_copies + s.copies);
  return {gain, "wgmma takes bytes only along the depth, for a copy of the operands"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "depth_innermost",
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate,
                              .numerics = Numerics::Exact});

}  // namespace
}  // namespace heddle
