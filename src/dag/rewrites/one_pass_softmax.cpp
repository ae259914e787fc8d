// The maximum of a row and the sum of its exponentials in one pass over it (Milakov and Gimelshein
// 2018, "Online normalizer calculation for softmax").
//
//   highest[i] = max over j of x(i, j)                                              (before)
//   total[i]   = sum over j of exp(x(i, j) - highest[i])
//
//   (m, s)[i]  = combine over j of (x(i, j), 1)             identity (-inf, 0)      (after)
//     (m, s) with (n, t):  e = exp(-|m - n|), or 1 where m = n;
//                          (max(m, n), m >= n ? s + t e : s e + t)
//   highest[i] = m[i]
//   total[i]   = NaN where m[i] is infinite, else s[i]
//
// An element takes one exponential, as it does in the sum. Equal maxima are told apart from the
// others because -inf - -inf is NaN: a masked element combined with the identity must not make one.
// Where a whole row is -inf, or where an element is +inf, the declaration's total is NaN.
//
// The rule recognises the two reductions by what they read. Stages between, such as one of the
// exponentials that something else reads as well, are looked through.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dag/patterns/softmax.h"
#include "dag/rewrites/rebuilder.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/attention.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

WhyNot why_not(const RewriteSite& site) {
  dag::Softmax s;
  return dag::match_softmax(site.dag, site.stage, &s);
}

/// The reducer of pairs (maximum, sum of exponentials of differences to it).
Reducer running_sum(DataType type) {
  const Expr none = lowest_value(type), nothing = make_const(type, 0), one = make_const(type, 1);
  return reducer("running_softmax", {type, type}, {none, nothing},
                 [&](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                   const Expr e = exp(select(a[0] == b[0], nothing, -abs(a[0] - b[0])));
                   const Expr first = b[0] <= a[0];
                   return std::vector<Expr>{
                       max(a[0], b[0]), select(first, a[1], b[1]) + select(first, b[1], a[1]) * e};
                 });
}

/// The maximum as a stage of its own where it is an output, because either all values of a tuple
/// are outputs or none are.
Tensor highest_of(const Tensor& running, const StageInfo& info, const Operation& declared) {
  if (!info.is_output) return running;
  return compute(
      running.shape(), [&](const std::vector<Axis>& i) { return running(i); }, declared.name(),
      declared.tag(), declared.where());
}

GraphRewrite rewrite(const RewriteSite& site) {
  dag::Softmax found;
  const WhyNot why = dag::match_softmax(site.dag, site.stage, &found);
  HEDDLE_ICHECK(why.empty(), "one_pass_softmax where it is not legal: " + why.text());
  const Operation &total = site.op(), &highest = site.dag.stage(found.highest);
  const DataType type = total.output(0).dtype();
  const Reducer pair = running_sum(type);
  const std::vector<Tensor> both = compute_all(
      highest.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<VarBinding> to;
        std::vector<Axis> over;
        for (std::size_t d = 0; d < i.size(); ++d) to.push_back({highest.axes()[d].var(), i[d]});
        for (const Axis& r : highest.reduce_axes()) {
          over.push_back(reduce_axis(r->extent, r.name(), highest.where()));
          to.push_back({r.var(), over.back()});
        }
        const Expr x = substitute(highest.bodies()[0].as<Reduce>()->sources[0], to);
        return pair({x, make_const(type, 1)}, over);
      },
      highest.name() + "_and_sum", "one_pass_softmax", total.where());
  const Tensor sum = compute(
      total.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        const Expr m = both[0].at(std::vector<Expr>(i.begin(), i.end()));
        return select(abs(m) == make_const(type, std::numeric_limits<double>::infinity()),
                      make_const(type, std::numeric_limits<double>::quiet_NaN()), both[1](i));
      },
      total.name(), total.tag(), total.where());
  dag::Rebuilder rebuilder;
  rebuilder.replace(highest.output(0), highest_of(both[0], site.dag.info(found.highest), highest));
  rebuilder.replace(total.output(0), sum);
  GraphRewrite out;
  for (const Tensor& t : site.dag.outputs()) out.outputs.push_back(rebuilder.rebuild(t));
  return out;
}

// A term is rounded once more for each new maximum that comes after it. In a row of independent
// elements the k-th is a new maximum with probability 1 / k, so a term is rounded once more on
// average.
double error_growth(const RewriteSite&) { return std::sqrt(2.0); }

/// What the passes read, and in which order.
struct Reads {
  bool along_row = false;  ///< a row is contiguous; else rows are read side by side
  double length = 1;       ///< elements of a row
  double row = 0;          ///< bytes of a row
  double all = 0;          ///< bytes of all rows
};

Reads reads_of(const ComputeDag& dag, int highest) {
  const Operation& op = dag.stage(highest);
  Reads out;
  for (const Axis& r : op.reduce_axes()) out.length *= static_cast<double>(r.extent());
  for (const Access& read : dag.info(highest).reads) {
    const auto varies = [&](const std::vector<Axis>& axes) {
      return std::any_of(axes.begin(), axes.end(),
                         [&](const Axis& x) { return read.depends_on(x); });
    };
    if (!varies(op.reduce_axes())) continue;
    out.row += out.length * read.tensor.dtype().bytes();
    const auto last = read.affine.empty() ? std::nullopt : read.affine.back();
    out.along_row |=
        last && std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(),
                            [&](const Axis& r) { return last->coefficient(r.var()) != 0; });
  }
  out.all = out.row * static_cast<double>(dag.info(highest).points);
  return out;
}

bool is_of_attention(const ComputeDag& dag, int total) {
  for (int s = 0; s < dag.size(); ++s) {
    const std::optional<Attention> found = find_attention(dag, s);
    if (found && found->total == total) return true;
  }
  return false;
}

/// The gain of one pass over two where rows come from beyond L2: cycles of a core for each element.
double gain_of_memory(DataType type, const Target& target, const CpuConstants& by) {
  const double lanes = std::max(1, target.vector_bytes / type.bytes());
  const double memory = type.bytes() / by.far_bytes, exponential = by.exponential_cycles / lanes;
  return (2 * memory + exponential) / (memory + exponential);
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  constexpr double kRowOfBlock = 32 << 10;  // elements that a block of a GPU keeps in registers
  constexpr double kFewRows = 16, kManyRows = 64;  // elements of a column
  dag::Softmax found;
  dag::match_softmax(site.dag, site.stage, &found);
  const Reads reads = reads_of(site.dag, found.highest);
  const DataType type = site.op().output(0).dtype();
  const std::string worth_trying = "for the tuner to try: one pass over the row in place of two";
  if (target.is_cuda()) {
    if (is_of_attention(site.dag, site.stage))
      return {.why_not = "the whole chain of attention goes row by row without it"};
    if (reads.along_row && reads.row <= kRowOfBlock * type.bytes())
      return {.why_not = "a block keeps the row in registers between the passes"};
    // (H200, us of two passes and of one: 12 rows of 350549 columns in f32 43.0 and 25.0, of 62770
    // in bf16 8.4 and 6.8; 128 rows of 8192 in bf16 9.6 and 7.3.)
    const GpuConstants& by = dag::gpu_constants(site);
    if (!reads.along_row && reads.length <= static_cast<double>(by.short_column))
      return {by.short_column_gain,
              "a thread has a short column: it reads it once in place of twice"};
    return {1, worth_trying};
  }
  if (reads.along_row && reads.row <= static_cast<double>(target.l1d_bytes))
    return {.why_not = "the row stays in the first cache between the passes"};
  if (!reads.along_row && reads.length < kFewRows)
    return {.why_not = "the pairs of so short columns are as long as what they are made of"};
  const double again = reads.along_row ? reads.row : reads.all / std::max(1, target.cores);
  // Rows that are read side by side gain where the exponentials need not be written between the
  // passes.
  const bool gains = reads.along_row || (found.stored && reads.length >= kManyRows);
  if (!gains || again <= static_cast<double>(target.l2_bytes)) return {1, worth_trying};
  return {gain_of_memory(type, target, dag::cpu_constants(site)),
          "rows come from beyond L2 once in place of twice"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "one_pass_softmax",
                              .why_not = why_not,
                              .error_growth = error_growth,
                              .estimate = estimate,
                              .rewrite = rewrite});

}  // namespace
}  // namespace heddle
