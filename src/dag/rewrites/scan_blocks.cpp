// Cuts scans of few rows into blocks that are scanned beside each other (Blelloch 1990), again and again until a row
// of totals is one block.
//
//   S[i] = sum over k <= i of x[k]                                                  (before)
//
//   T[q] = sum over r < B of x[q * B + r]                                           (after)
//   P[q] = sum over k < q of T[k]                       a scan too
//   S[i] = sum over r <= i % B of (r == 0 ? P[i / B] + x[..] : x[i - i % B + r])
//
// For a reducer of one component, from either end. On a GPU a thread scans a block, and all that a row needs is one
// kernel (schedule/groups/row_program.h). A CPU has as many cores as a declaration has rows; ops::cumsum cuts long ones.
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/ir/simplify.h"

namespace heddle {
namespace {

constexpr int64_t kShortest = 256;  // terms: shorter scans take no longer than two kernels

struct Whole {
  std::size_t axis = 0;
  int64_t length = 0;
  bool reverse = false;
  const Select* term = nullptr;
};

/// The scan over a whole axis that the stage is.
std::optional<Whole> whole_scan(const RewriteSite& site) {
  const std::optional<ScanInfo>& scan = site.dag.info(site.stage).scan;
  if (!scan || site.op().bodies().size() != 1) return std::nullopt;
  const Reduce& r = *site.op().bodies()[0].as<Reduce>();
  Whole out;
  out.axis = static_cast<std::size_t>(scan->axis);
  const Axis& i = site.op().axes()[out.axis];
  out.length = i.extent();
  out.term = r.sources[0].as<Select>();
  const Binary* c = out.term->condition.as<Binary>();
  if (scan->block != out.length || !c) return std::nullopt;
  const Expr bound =
      simplify(c->b - c->a + r.axes[0].var().expr() - Expr(c->op == BinaryOp::Lt ? 1 : 0));
  out.reverse = is_const(simplify(bound + i.var().expr()), out.length - 1);
  if (!out.reverse && !is_const(simplify(bound - i.var().expr()), 0)) return std::nullopt;
  return out;
}

WhyNot why_not(const RewriteSite& site) {
  const std::optional<Whole> scan = whole_scan(site);
  if (!scan) return WhyNot::other_kind("a scan over a whole axis");
  const int64_t block = site.values[0];
  if (block < 2 || 2 * block > scan->length)
    return "blocks of " + std::to_string(block) + " cut no axis of " + std::to_string(scan->length);
  // Blocks of a scan from the end begin at multiples of their length.
  if (scan->reverse && scan->length % block != 0)
    return "blocks of " + std::to_string(block) + " do not divide a scan from the end";
  return "";
}

class Blocks {
 public:
  Blocks(const RewriteSite& site, const Whole& scan)
      : op_(site.op()),
        scan_(scan),
        block_(site.values[0]),
        reduce_(*op_.bodies()[0].as<Reduce>()) {}

  Tensor all() {
    const auto term = [&](const std::vector<Expr>& at, const Expr& k) {
      std::vector<VarBinding> to{{reduce_.axes[0].var(), k}};
      for (std::size_t d = 0; d < at.size(); ++d)
        to.push_back({op_.axes()[d].var(), d == scan_.axis ? Expr(0) : at[d]});
      return substitute(scan_.term->on_true, to);
    };
    return in_blocks(scan_.length, term, scan_.reverse, op_.name());
  }

 private:
  /// The element at distance k from the beginning of a scan; the scanned axis of the indices counts for nothing.
  using Term = std::function<Expr(const std::vector<Expr>&, const Expr&)>;

  Tensor in_blocks(int64_t n, const Term& term, bool reverse, const std::string& name) {
    const auto inside = [&](const std::vector<Expr>& at, const Expr& k) {
      return n % block_ == 0 ? term(at, k) : select(k < n, term(at, k), identity());
    };
    const Tensor totals = stage(
        ceil_div(n, block_),
        [&](const std::vector<Expr>& at, const Axis& r) {
          return inside(at, at[scan_.axis] * block_ + r);
        },
        block_, name + "_totals");
    const Tensor before = scanned(
        ceil_div(n, block_),
        [&](std::vector<Expr> at, const Expr& k) {
          at[scan_.axis] = k - 1;
          return select(k > 0, totals.at(std::move(at)), identity());
        },
        name + "_before");
    return stage(
        n,
        [&](const std::vector<Expr>& at, const Axis& r) {
          const Expr i = at[scan_.axis], p = reverse ? Expr(n - 1) - i : i;
          const Expr which = floordiv(p, block_), own = inside(at, which * block_ + r);
          std::vector<Expr> of = at;
          of[scan_.axis] = which;
          const Expr first = combined(before.at(std::move(of)), own);
          return select(r <= floormod(p, block_), select(r < 1, first, own), identity());
        },
        block_, name);
  }

  Tensor scanned(int64_t n, const Term& term, const std::string& name) {
    if (n > block_) return in_blocks(n, term, false, name);
    return stage(
        n,
        [&](const std::vector<Expr>& at, const Axis& k) {
          return select(k <= at[scan_.axis], term(at, k), identity());
        },
        n, name);
  }

  /// The reduction of `length` terms at each point, where the scanned axis has `n`.
  Tensor stage(int64_t n, const std::function<Expr(const std::vector<Expr>&, const Axis&)>& term,
               int64_t length, const std::string& name) {
    std::vector<Expr> shape = op_.output(0).shape();
    shape[scan_.axis] = Expr(n);
    return compute(
        shape,
        [&](const std::vector<Axis>& i) {
          const Axis r = reduce_axis(length, "k", op_.where());
          return make_reduce(reduce_.combiner, {term(std::vector<Expr>(i.begin(), i.end()), r)},
                             {r});
        },
        name, op_.tag(), op_.where());
  }

  Expr identity() const { return reduce_.combiner->identity[0]; }
  Expr combined(const Expr& a, const Expr& b) const {
    return substitute(reduce_.combiner->result[0],
                      {{reduce_.combiner->lhs[0], a}, {reduce_.combiner->rhs[0], b}});
  }

  const Operation& op_;
  const Whole& scan_;
  const int64_t block_;
  const Reduce& reduce_;
};

/// Seconds of a scan by a thread for each row, and in blocks; both wait for memory.
RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  if (!target.is_cuda()) return {.why_not = "a core scans rows in order"};
  constexpr double kApart = 1e-7,
                   kBeside = 3e-8;  // an element of a thread, by how far neighbours are apart
  constexpr double kThreadsOfMultiprocessor = 256, kKernels = 1e-5, kPasses = 3;
  const Whole scan = *whole_scan(site);
  const std::vector<Axis>& axes = site.op().axes();
  double columns = 1;
  for (std::size_t d = scan.axis + 1; d < axes.size(); ++d)
    columns *= static_cast<double>(axes[d].extent());
  const double n = static_cast<double>(scan.length),
               points = static_cast<double>(site.dag.info(site.stage).points);
  const double turns = std::max(1.0, points / n / (target.gpu.sms * kThreadsOfMultiprocessor));
  const double in_order = n * turns * (columns < 32 ? kApart : kBeside);
  const double bytes = kPasses * points * site.op().output(0).dtype().bytes();
  const double in_blocks = kKernels + bytes / (target.gpu.bandwidth_gbs * 1e9);
  if (scan.length < kShortest || in_order < in_blocks)
    return {.why_not = "a thread for each row scans it in as little time"};
  return {in_order / in_blocks, "blocks of a row are scanned beside each other"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "scan_blocks",
                              .parameters = {{"block", {16, 32}}},
                              .why_not = why_not,
                              .apply = [](const RewriteSite& site) -> std::vector<Tensor> {
                                const Whole scan = *whole_scan(site);
                                return {Blocks(site, scan).all()};
                              },
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate});

}  // namespace
}  // namespace heddle
