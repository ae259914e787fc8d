#include "heddle/dag/generalize.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "dag/creation_order.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/ir/print.h"
#include "heddle/ir/sizes.h"

namespace heddle {
namespace {

[[noreturn]] void differs(const std::string& what, const std::string& help = "") {
  throw_user_error(
      "the declaration has other operations at other sizes: " + what, {},
      help.empty() ? "declare it with the operations of every size, or one size" : help);
}

/// A number that is `a` at size `at_a` and `b` at size `at_b`, as factor * size + constant; nullopt
/// where no integers do that.
struct Line {
  int64_t factor = 0, constant = 0;
};
std::optional<Line> line_through(int64_t at_a, int64_t a, int64_t at_b, int64_t b) {
  if ((a - b) % (at_a - at_b) != 0) return std::nullopt;
  const int64_t factor = (a - b) / (at_a - at_b);
  return Line{factor, a - factor * at_a};
}

/// Walks the declaration at two sizes side by side and makes the one over the dimension.
class Generalizer {
 public:
  Generalizer(const Dim& n, int64_t at_a, int64_t at_b) : n_(n), at_a_(at_a), at_b_(at_b) {}

  Instance run(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    const dag::CreationOrder of_a(a), of_b(b);
    if (of_a.operations.size() != of_b.operations.size() || of_a.axes.size() != of_b.axes.size() ||
        a.size() != b.size())
      differs("their number is another");
    for (auto [x, y] = std::pair(of_a.axes.begin(), of_b.axes.begin()); x != of_a.axes.end();
         ++x, ++y)
      add(x->second, y->second);
    for (auto [x, y] = std::pair(of_a.operations.begin(), of_b.operations.begin());
         x != of_a.operations.end(); ++x, ++y)
      add(*x->second, *y->second);
    for (const Tensor& t : a) made_.outputs.push_back(made_.of(t));
    return std::move(made_);
  }

 private:
  Expr number(int64_t a, int64_t b, const std::string& what) const {
    if (a == b) return Expr(a);
    const std::optional<Line> line = line_through(at_a_, a, at_b_, b);
    if (!line)
      differs(what + " is " + std::to_string(a) + " at " + std::to_string(at_a_) + " and " +
              std::to_string(b) + " at " + std::to_string(at_b_));
    return Expr(n_) * line->factor + line->constant;
  }
  Expr extent(const Expr& a, const Expr& b, const std::string& what) const {
    const int64_t *x = as_int(a), *y = as_int(b);
    if (x && y) return number(*x, *y, "the extent of " + what);
    if (!equal(a, b)) differs("the extent of " + what + " depends on other dimensions");
    return a;
  }

  void add(const Axis& a, const Axis& b) {
    if (a->kind != b->kind) differs("axis '" + a.name() + "' is of another kind");
    const Axis made(a.name(), extent(a->extent, b->extent, "axis '" + a.name() + "'"), a->kind);
    axes_.emplace(a.get(), made);
    vars_.emplace(a.var().get(), made.var().expr());
    partner_.emplace(a.var().get(), b.var().get());
    axis_partner_.emplace(a.get(), b.get());
  }

  void add(const Operation& a, const Operation& b) {
    if (a.kind() != b.kind() || a.num_outputs() != b.num_outputs() ||
        a.axes().size() != b.axes().size() || a.output(0).rank() != b.output(0).rank() ||
        a.output(0).dtype() != b.output(0).dtype())
      differs("'" + a.name() + "' and '" + b.name() + "'");
    name_ = a.name();
    Ref<const Operation> made;
    if (a.is_placeholder()) {
      if (a.data() != b.data()) differs("the values of '" + a.name() + "'");
      Shape shape;
      for (size_t d = 0; d < a.output(0).shape().size(); ++d)
        shape.push_back(extent(a.output(0).shape()[d], b.output(0).shape()[d],
                               "dimension " + std::to_string(d) + " of '" + a.name() + "'"));
      made = Operation::make_placeholder(std::move(shape), a.output(0).dtype(), a.name(),
                                         a.is_constant(), a.where(), a.shared_data());
    } else {
      std::vector<Axis> axes;
      for (size_t d = 0; d < a.axes().size(); ++d) {
        if (axis_partner_.at(a.axes()[d].get()) != b.axes()[d].get()) differs("axes of " + name_);
        axes.push_back(axes_.at(a.axes()[d].get()));
      }
      std::vector<Expr> bodies;
      for (size_t i = 0; i < a.bodies().size(); ++i)
        bodies.push_back(both(a.bodies()[i], b.bodies()[i]));
      made =
          Operation::make_compute(a.name(), std::move(axes), std::move(bodies), a.tag(), a.where());
    }
    for (int i = 0; i < a.num_outputs(); ++i) {
      made_.tensors.emplace_back(a.output(i), made->output(i));
      buffers_.emplace(a.output_buffer(i).get(), made->output_buffer(i));
      buffer_partner_.emplace(a.output_buffer(i).get(), b.output_buffer(i).get());
    }
  }

  Expr both(const Expr& a, const Expr& b) {
    if (const auto at = done_.find(a.get()); at != done_.end() && at->second.first.same_as(b))
      return at->second.second;
    const Expr made = both_new(a, b);
    done_.insert_or_assign(a.get(), std::pair(b, made));
    return made;
  }

  std::vector<Expr> all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    if (a.size() != b.size()) differs("operands in '" + name_ + "'");
    std::vector<Expr> out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(both(a[i], b[i]));
    return out;
  }

  Expr both_new(const Expr& a, const Expr& b) {
    if (a.kind() != b.kind() || a.dtype() != b.dtype())
      differs("'" + to_string(a) + "' and '" + to_string(b) + "' in '" + name_ + "'");
    switch (a.kind()) {
      case ExprKind::IntImm: {
        const int64_t x = a.as<IntImm>()->value, y = b.as<IntImm>()->value;
        if (x == y) return a;
        if (a.dtype() != i64) break;
        return number(x, y, "a number in '" + name_ + "'");
      }
      case ExprKind::FloatImm:
        if (equal(a, b)) return a;
        differs("the number " + to_string(a) + " in '" + name_ + "' is " + to_string(b),
                "write it with the dimension itself: cast(f32, n)");
      case ExprKind::Var: {
        const auto at = partner_.find(a.as<VarNode>());
        if (at == partner_.end() ? !a.same_as(b) : at->second != b.get()) break;
        return at == partner_.end() ? a : vars_.at(a.as<VarNode>());
      }
      case ExprKind::Load: {
        const auto *x = a.as<Load>(), *y = b.as<Load>();
        if (buffer_partner_.at(x->buffer.get()) != y->buffer.get()) break;
        return make_load(buffers_.at(x->buffer.get()), all(x->indices, y->indices));
      }
      case ExprKind::Reduce: {
        const auto *x = a.as<Reduce>(), *y = b.as<Reduce>();
        if (x->combiner.get() != y->combiner.get() || x->index != y->index ||
            x->axes.size() != y->axes.size())
          break;
        std::vector<Axis> axes;
        for (const Axis& axis : x->axes) axes.push_back(axes_.at(axis.get()));
        return make_reduce(x->combiner, all(x->sources, y->sources), std::move(axes), x->index);
      }
      default: {
        if (a.kind() == ExprKind::Unary && a.as<Unary>()->op != b.as<Unary>()->op) break;
        if (a.kind() == ExprKind::Binary && a.as<Binary>()->op != b.as<Binary>()->op) break;
        std::vector<Expr> others;
        for_each_child(b, [&](const Expr& c) { others.push_back(c); });
        size_t next = 0;
        return map_children(a, [&](const Expr& c) { return both(c, others.at(next++)); });
      }
    }
    differs("'" + to_string(a) + "' and '" + to_string(b) + "' in '" + name_ + "'");
  }

  const Dim& n_;
  const int64_t at_a_, at_b_;
  Instance made_;
  std::string name_;  ///< of the current operation
  std::unordered_map<const AxisNode*, Axis> axes_;
  std::unordered_map<const AxisNode*, const AxisNode*> axis_partner_;
  std::unordered_map<const VarNode*, Expr> vars_;
  std::unordered_map<const VarNode*, const ExprNode*> partner_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
  std::unordered_map<const BufferNode*, const BufferNode*> buffer_partner_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> done_;
};

}  // namespace

Generalized generalize(const Dim& n, const std::function<std::vector<Tensor>(int64_t)>& declare) {
  const int64_t large = n.hi(), next = n.hi() - n.multiple();
  if (next < n.lo())
    throw_user_error("dimension '" + n.name() + "' has one size only, " + std::to_string(large), {},
                     "declare it with that number");
  std::vector<Tensor> at_large = declare(large);
  const Instance family = Generalizer(n, large, next).run(at_large, declare(next));
  // A declaration whose structure differs at small sizes only is found by comparing these two
  // sizes.
  for (const int64_t size :
       {n.lo(), n.lo() + (n.hi() - n.lo()) / n.multiple() / 2 * n.multiple()}) {
    const ComputeDag want(declare(size)), have(at_sizes(family.outputs, {{n, size}}).outputs);
    if (want.structural_hash() != have.structural_hash())
      differs("what is declared at size " + std::to_string(size) +
              " is not what the larger sizes have in common");
  }
  return {family.outputs, family.tensors, std::move(at_large)};
}

}  // namespace heddle
