// Arithmetic operations of a stage.
//
// Counted as 1: + - * / % floordiv floormod min max pow atan2 neg abs, the roundings, and every
// transcendental function; so a fused multiply-add is 2. Counted as 0: comparisons, logic, bit
// operations, casts, selects, loads, and index arithmetic, which is any integer expression without
// a load. A subexpression that occurs twice is counted once; both arms of a select are counted.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "dag/internal.h"
#include "heddle/dag/operations.h"
#include "ir/op_class.h"

namespace heddle::dag {
namespace {

class WorkCounter {
 public:
  void count(const Expr& e) {
    if (!first_visit(e)) return;
    // Indices of a load may contain loads, but their work is not counted.
    if (e.kind() == ExprKind::Load) return;
    const bool index = !e.dtype().is_float() && !has_load(e);
    if (index && !e.dtype().is_bool()) return;
    if (const auto* u = e.as<Unary>()) add(op_class(u->op));
    if (const auto* b = e.as<Binary>()) add(op_class(b->op));
    for_each_child(e, [this](const Expr& child) { count(child); });
  }
  Work work() const { return work_; }

 private:
  void add(OpClass c) {
    if (c == OpClass::Logic) return;
    work_.flops += 1;
    if (is_slow(c)) work_.special += 1;
  }

  /// Hashes only find candidates. Their values differ from run to run, but the count does not.
  bool first_visit(const Expr& e) {
    std::vector<Expr>& bucket = seen_[e->hash];
    for (const Expr& other : bucket) {
      if (equal(other, e)) return false;
    }
    bucket.push_back(e);
    return true;
  }

  bool has_load(const Expr& e) {
    if (const auto it = has_load_.find(e.get()); it != has_load_.end()) return it->second;
    bool found = e.kind() == ExprKind::Load;
    if (!found) for_each_child(e, [&](const Expr& child) { found = found || has_load(child); });
    has_load_.emplace(e.get(), found);
    return found;
  }

  Work work_;
  std::unordered_map<uint64_t, std::vector<Expr>> seen_;
  std::unordered_map<const ExprNode*, bool> has_load_;
};

/// Work of combining two partial results. Its variables are data, not indices.
double combine_flops(const Combiner& combiner, Work* work) {
  WorkCounter counter;
  double flops = 0;
  for (const Expr& e : combiner.result) {
    if (e.dtype().is_float()) {
      counter.count(e);
    } else if (const auto* b = e.as<Binary>()) {
      flops += b->op == BinaryOp::And || b->op == BinaryOp::Or ? 0 : 1;
    }
  }
  work->special += counter.work().special;
  // A reduction whose combiner only compares (argmax) counts as one operation.
  return std::max(1.0, flops + counter.work().flops);
}

}  // namespace

Work count_work(const Operation& op) {
  WorkCounter counter;
  for (const Expr& e : inner_bodies(op)) counter.count(e);
  Work work = counter.work();
  const auto* reduce = op.bodies().empty() ? nullptr : op.bodies()[0].as<Reduce>();
  if (reduce != nullptr) work.flops += combine_flops(*reduce->combiner, &work);
  return work;
}

}  // namespace heddle::dag

namespace heddle {

double operations_per_point(const StageInfo& info) {
  return info.flops_per_point + (kSlowOperation - 1) * info.transcendentals_per_point;
}

double operations_of(const StageInfo& info) {
  const auto evaluations = static_cast<double>(info.points * info.reduce_points);
  return info.flops + (kSlowOperation - 1) * info.transcendentals_per_point * evaluations;
}

namespace {

double bytes_of(const Tensor& t) { return static_cast<double>(t.size() * t.dtype().bytes()); }

}  // namespace

double stage_bytes(const ComputeDag& dag, int s) {
  double bytes = 0;
  for (const Tensor& x : dag.stage(s).inputs()) bytes += bytes_of(x);
  for (int o = 0; o < dag.stage(s).num_outputs(); ++o) bytes += bytes_of(dag.stage(s).output(o));
  return bytes;
}

bool streams_operands(const ComputeDag& dag, int s) {
  double streamed = 0;
  for (const Tensor& x : dag.stage(s).inputs()) {
    const auto reuses = [&](const Access& a) {
      return a.tensor.same_as(x) && !(a.reuse_axes.empty() && a.window_axes.empty());
    };
    if (std::ranges::none_of(dag.info(s).reads, reuses)) streamed += bytes_of(x);
  }
  return streamed >= 0.9 * stage_bytes(dag, s);
}

}  // namespace heddle
