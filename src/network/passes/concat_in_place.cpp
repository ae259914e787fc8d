#include "network/passes/concat_in_place.h"

#include <algorithm>
#include <map>
#include <optional>

#include "dag/rewrites/rewrite_parts.h"
#include "heddle/ir/simplify.h"
#include "ir/linear.h"
#include "network/memory_plan.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// A result of a stage: the stage, and which of its outputs.
using Result = std::pair<int, int>;

/// A tensor that a concat reads whole, and the first of its elements there.
struct Part {
  Result result;
  int64_t begin = 0;
};

int64_t bytes(const Tensor& t) { return t.size() * t.dtype().bytes(); }

/// An arm of nested selects, and the ranges of the axes where it is selected.
struct Arm {
  const Load* load = nullptr;
  Ranges ranges;
};

/// `ranges` where `condition` is `value`: narrower for `axis < number` and `axis == number`.
Ranges narrowed(Ranges ranges, const Expr& condition, bool value) {
  const Binary* test = condition.as<Binary>();
  if (test == nullptr || test->a.kind() != ExprKind::Var) return ranges;
  const Var axis = Var::from(test->a);
  const int64_t* number = as_int(test->b);
  if (number == nullptr) return ranges;
  Interval range = ranges.get(axis.get());
  if (test->op == BinaryOp::Eq && value) range = {*number, *number};
  if (test->op == BinaryOp::Lt && value) range.max = std::min(range.max, *number - 1);
  if (test->op == BinaryOp::Lt && !value) range.min = std::max(range.min, *number);
  ranges.set(axis, range);
  return ranges;
}

/// Collects the arms of nested selects.
void collect_arms(const Expr& e, const Ranges& ranges, std::vector<Arm>& arms, bool& plain) {
  if (const Select* s = e.as<Select>()) {
    if (has_load(s->condition)) plain = false;
    collect_arms(s->on_true, narrowed(ranges, s->condition, true), arms, plain);
    collect_arms(s->on_false, narrowed(ranges, s->condition, false), arms, plain);
  } else if (const Load* load = e.as<Load>()) {
    arms.push_back({load, ranges});
  } else {
    plain = false;
  }
}

/// Finds the parts of a concat whose parts are consecutive in memory, in order. Returns none for
/// all other stages. The stage is recognised by what it computes: element `begin` + n of the result
/// must be element n of the part, for all elements of the part.
class ConcatParts {
 public:
  ConcatParts(const ComputeDag& dag, int s) : dag_(dag), s_(s), op_(dag.stage(s)) {}

  std::vector<Part> find() {
    if (op_.is_placeholder() || op_.is_reduction() || op_.num_outputs() != 1) return {};
    if (op_.bodies()[0].kind() != ExprKind::Select) return {};
    std::vector<Arm> arms;
    bool plain = true;
    collect_arms(op_.bodies()[0], ranges_of(op_), arms, plain);
    if (!plain) return {};
    std::vector<Part> parts;
    for (const Arm& arm : arms) {
      const std::optional<Part> part = part_of(*arm.load, arm.ranges);
      if (!part) return {};
      parts.push_back(*part);
    }
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
    int64_t end = 0;
    for (const Part& p : parts) {
      if (p.begin != end) return {};
      end += size_of(p);
    }
    return end == op_.output(0).size() && selects_by(parts) ? parts : std::vector<Part>{};
  }

 private:
  /// The position of a part in the result, if its elements keep their order.
  std::optional<Part> part_of(const Load& load, const Ranges& where) const {
    const Tensor t = tensor_of(load.buffer), whole = op_.output(0);
    if (std::any_of(load.indices.begin(), load.indices.end(), has_load)) return std::nullopt;
    std::vector<Expr> own;
    std::vector<VarBinding> single;
    for (const Axis& a : op_.axes()) {
      own.emplace_back(a);
      if (a.extent() == 1) single.push_back({a.var(), Expr(0)});
    }
    const Expr difference = dag::flatten(own, whole.extents()) -
                            dag::flatten(std::vector<Expr>(load.indices), t.extents());
    const Expr begin = simplify(substitute(difference, single), where);
    const int64_t* number = as_int(begin);
    if (number == nullptr) return std::nullopt;
    return Part{{dag_.index_of(t.op()), t.index()}, *number};
  }

  int64_t size_of(const Part& p) const {
    return dag_.stage(p.result.first).output(p.result.second).size();
  }

  /// Whether the conditions select each element from the right part. Conditions are constant within
  /// a part, which covers whole steps of one axis, so it is enough to test the first and the last
  /// step of each.
  bool selects_by(const std::vector<Part>& parts) const {
    size_t axis = 0;
    const Tensor whole = op_.output(0);
    while (axis < op_.axes().size() && whole.extent(static_cast<int>(axis)) == 1) ++axis;
    if (axis == op_.axes().size()) return false;
    int64_t step = 1;
    for (int d = static_cast<int>(axis) + 1; d < whole.rank(); ++d) step *= whole.extent(d);
    for (const Part& p : parts) {
      const int64_t size = size_of(p);
      if (p.begin % step != 0 || size % step != 0) return false;
      Ranges ranges = ranges_of(op_);
      ranges.set(op_.axes()[axis].var(), {p.begin / step, (p.begin + size) / step - 1});
      const Expr here = simplify(op_.bodies()[0], ranges);
      const Load* load = here.as<Load>();
      if (load == nullptr) return false;
      const Tensor read = tensor_of(load->buffer);
      if (Result{dag_.index_of(read.op()), read.index()} != p.result) return false;
    }
    return true;
  }

  const ComputeDag& dag_;
  const int s_;
  const Operation& op_;
};

class Planner {
 public:
  explicit Planner(const ComputeDag& dag) : dag_(dag) {}

  InPlacePlan run() {
    std::map<int, std::vector<Part>> concats;
    for (int s = 0; s < dag_.size(); ++s) {
      const StageInfo& info = dag_.info(s);
      if (info.is_output || info.precomputable) continue;
      std::vector<Part> parts = ConcatParts(dag_, s).find();
      if (!parts.empty()) concats.emplace(s, std::move(parts));
    }
    // Of concats that share parts the largest comes first. Among equals the later one comes first.
    std::vector<int> order;
    for (const auto& [s, parts] : concats) order.push_back(s);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return dag_.stage(a).output(0).size() > dag_.stage(b).output(0).size();
    });
    for (const int s : order) place(s, concats[s]);
    InPlacePlan plan;
    for (const auto& [result, place] : placed_)
      plan.places.push_back({tensor(result), dag_.stage(place.first).output(0), place.second});
    plan.wholes.assign(wholes_.begin(), wholes_.end());
    std::sort(plan.wholes.begin(), plan.wholes.end());
    for (const int s : plan.wholes) {
      for (const Part& p : concats[s]) {
        if (!is_whole(p.result.first)) plan.parts.push_back(p.result.first);
      }
    }
    return plan;
  }

 private:
  using Place = std::pair<int, int64_t>;  ///< a whole, and the offset in it in bytes

  Tensor tensor(const Result& r) const { return dag_.stage(r.first).output(r.second); }

  bool may_move(const Result& r) const {
    const StageInfo& info = dag_.info(r.first);
    const std::vector<Tensor>& outputs = dag_.outputs();
    if (info.is_output && std::any_of(outputs.begin(), outputs.end(),
                                      [&](const Tensor& t) { return t.same_as(tensor(r)); }))
      return false;
    return !dag_.stage(r.first).is_placeholder() && !info.precomputable &&
           moved_read(dag_.stage(r.first)) == nullptr;
  }

  /// Places a concat in the whole that already contains its parts, or makes it a whole of its own.
  void place(int s, const std::vector<Part>& parts) {
    const int64_t element = dag_.stage(s).output(0).dtype().bytes();
    Place own{s, 0};
    const bool claimed = placed_.count({s, 0}) != 0;
    if (claimed) own = placed_.at({s, 0});
    for (const Part& p : parts) {
      if (const auto it = placed_.find(p.result); it != placed_.end() && own.first == s)
        own = {it->second.first, it->second.second - p.begin * element};
    }
    const int64_t room = bytes(dag_.stage(own.first).output(0)) - bytes(dag_.stage(s).output(0));
    if (own.second < 0 || own.second > room || own.second % kArenaAlignment != 0) return;
    std::map<Result, Place> wanted;
    for (const Part& p : parts) {
      const Place here{own.first, own.second + p.begin * element};
      if (here.second % kArenaAlignment != 0 || !may_move(p.result)) return;
      if (!wanted.emplace(p.result, here).second) return;  // the part occurs twice in one concat
      const auto it = placed_.find(p.result);
      if (it != placed_.end() ? it->second != here : is_whole(p.result.first)) return;
      // A place in the whole of another concat must have been claimed by the parts of that concat.
      if (it == placed_.end() && own.first != s && !claimed) return;
    }
    placed_.insert(wanted.begin(), wanted.end());
    if (own.first != s) placed_.emplace(Result{s, 0}, own);  // no effect where it is claimed
    wholes_.push_back(s);
  }

  bool is_whole(int s) const {
    return std::find(wholes_.begin(), wholes_.end(), s) != wholes_.end();
  }

  const ComputeDag& dag_;
  std::map<Result, Place> placed_;
  std::vector<int> wholes_;
};

}  // namespace

InPlacePlan plan_concats(const ComputeDag& dag) { return Planner(dag).run(); }

}  // namespace heddle::network
