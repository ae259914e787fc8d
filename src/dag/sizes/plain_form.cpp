// A form of declarations in which two that differ only by sizes of 1 are equal.
#include <unordered_map>

#include "dag/creation_order.h"
#include "dag/sizes/generalizer.h"
#include "heddle/ir/simplify.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::dag {
namespace {

class PlainForm {
 public:
  PlainForm(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& values) {
    const CreationOrder parts(outputs);
    for (const SizeValue& v : values) vars_[v.size.get()] = Expr(v.value);
    for (const auto& [id, axis] : parts.axes) {
      const Axis made(axis.name(), simplify(replace(axis->extent)), axis->kind);
      axes_.emplace(axis.get(), made);
      const int64_t* points = as_int(made->extent);
      vars_[axis.var().get()] = points && *points == 1 ? Expr(0) : made.var().expr();
    }
    // Inputs come first, because where they were declared among the stages makes no difference.
    for (const auto& [id, op] : parts.operations) {
      if (op->is_placeholder()) add_placeholder(*op);
    }
    for (const auto& [id, op] : parts.operations) {
      bool is_output = false;
      for (const Tensor& t : outputs) is_output |= t.op() == op.get();
      if (!op->is_placeholder()) add_stage(*op, is_output);
    }
    for (const Tensor& t : outputs) made_.outputs.push_back(made_.of(t));
  }

  Instance take() { return std::move(made_); }

 private:
  /// A stage that is inlined into its readers: its axes, and its value.
  struct Inlined {
    std::vector<Axis> axes;
    Expr body;
  };

  void add_placeholder(const Operation& op) {
    if (const NDArray* data = op.data()) constants_.emplace(op.output_buffer(0).get(), data);
    Shape shape;
    for (const Expr& e : op.output_buffer(0)->shape) shape.push_back(simplify(replace(e)));
    pair(op, *Operation::make_placeholder(std::move(shape), op.output_buffer(0)->dtype, op.name(),
                                          op.is_constant(), op.where(), op.shared_data()));
  }

  void add_stage(const Operation& op, bool is_output) {
    std::vector<Axis> axes;
    for (const Axis& a : op.axes()) axes.push_back(axes_.at(a.get()));
    ranges_ = {};
    for (const auto* list : {&op.axes(), &op.reduce_axes()}) {
      for (const Axis& a : *list) bound(axes_.at(a.get()));
    }
    std::vector<Expr> bodies;
    for (const Expr& body : op.bodies()) bodies.push_back(simplify(replace(body), ranges_));
    const ExprKind kind = bodies[0].kind();
    const bool moves = op.num_outputs() == 1 && (kind == ExprKind::Load || is_number(bodies[0]));
    if (moves) inlined_.emplace(op.output_buffer(0).get(), Inlined{axes, bodies[0]});
    if (moves && !is_output) return;
    pair(op, *Operation::make_compute(op.name(), std::move(axes), std::move(bodies), op.tag(),
                                      op.where()));
  }

  /// An index that is below the extent needs no quotient by it: one image has its channels alone.
  void bound(const Axis& axis) {
    const int64_t longest = range_of(axis->extent, {}).max;
    if (longest > 0 && longest != Interval::kPosInf) ranges_.set(axis.var(), {0, longest - 1});
  }

  static bool is_number(const Expr& e) {
    return e.kind() == ExprKind::IntImm || e.kind() == ExprKind::FloatImm;
  }

  void pair(const Operation& op, const Operation& made) {
    for (int i = 0; i < op.num_outputs(); ++i) {
      made_.tensors.emplace_back(op.output(i), made.output(i));
      buffers_.emplace(op.output_buffer(i).get(), made.output_buffer(i));
    }
  }

  Expr replace(const Expr& e) {
    return memo_(e, [&](const Expr& x) -> Expr {
      if (const VarNode* v = x.as<VarNode>()) {
        const auto at = vars_.find(v);
        return at == vars_.end() ? x : at->second;
      }
      if (const Reduce* r = x.as<Reduce>()) {
        std::vector<Expr> sources;
        for (const Expr& s : r->sources) sources.push_back(replace(s));
        std::vector<Axis> axes;
        for (const Axis& a : r->axes) axes.push_back(axes_.at(a.get()));
        return make_reduce(r->combiner, std::move(sources), std::move(axes), r->index);
      }
      if (const Load* load = x.as<Load>()) return read(*load);
      return map_children(x, [&](const Expr& c) { return replace(c); });
    });
  }

  Expr read(const Load& load) {
    std::vector<Expr> indices;
    for (const Expr& i : load.indices) indices.push_back(simplify(replace(i), ranges_));
    if (const auto constant = constants_.find(load.buffer.get()); constant != constants_.end()) {
      if (const std::optional<Expr> number = element(*constant->second, indices)) return *number;
    }
    if (const auto at = inlined_.find(load.buffer.get()); at != inlined_.end()) {
      std::vector<VarBinding> bindings;
      for (size_t d = 0; d < indices.size(); ++d)
        bindings.push_back({at->second.axes[d].var(), indices[d]});
      return substitute(at->second.body, bindings);
    }
    return make_load(buffers_.at(load.buffer.get()), std::move(indices));
  }

  static std::optional<Expr> element(const NDArray& array, const std::vector<Expr>& indices) {
    int64_t flat = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      const int64_t* i = as_int(indices[d]);
      if (!i) return std::nullopt;
      flat = flat * array.shape()[d] + *i;
    }
    const double value = array.get(flat);
    const DataType t = array.dtype();
    return t.is_float() ? make_const(t, value) : heddle::cast(t, Expr(static_cast<int64_t>(value)));
  }

  std::unordered_map<const VarNode*, Expr> vars_;
  std::unordered_map<const AxisNode*, Axis> axes_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
  std::unordered_map<const BufferNode*, const NDArray*> constants_;
  std::unordered_map<const BufferNode*, Inlined> inlined_;
  RewriteMemo memo_;
  Ranges ranges_;  ///< of the axes of the current stage
  Instance made_;
};

}  // namespace

Instance plain_form(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& values) {
  return PlainForm(outputs, values).take();
}

}  // namespace heddle::dag
