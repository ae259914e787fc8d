// Writes a declaration as JSON. The form is described in dag/declaration/declaration.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "dag/declaration/declaration.h"
#include "dag/declaration/form.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "support/hashing/hex.h"

namespace heddle {
namespace {

using namespace dag;

/// A list of nodes in which each node appears once, after its operands. The form of variables,
/// loads and reductions depends on the place of the list.
class NodeWriter {
 public:
  using Leaf = std::function<Json(const Expr&)>;
  explicit NodeWriter(Leaf leaf) : leaf_(std::move(leaf)) {}

  /// The number of `e`. Appends it and what it needs to `list` where they are new.
  int64_t write(const Expr& e, Json& list) { return enter(e, list, 1).number; }

 private:
  struct Written {
    int64_t number = 0;
    int height = 1;  ///< levels of the expression, this node included
  };

  Written enter(const Expr& e, Json& list, int depth) {
    if (const auto at = written_.find(e.get()); at != written_.end()) return at->second;
    if (depth > kDeepestExpression) too_deep();
    Written out;
    std::vector<int64_t> children;
    for_each_child(e, [&](const Expr& c) {
      const Written child = enter(c, list, depth + 1);
      children.push_back(child.number);
      out.height = std::max(out.height, child.height + 1);
    });
    if (out.height > kDeepestExpression) too_deep();
    list.push_back(node(e, children));
    out.number = static_cast<int64_t>(written_.size());
    written_.emplace(e.get(), out);
    return out;
  }

  [[noreturn]] static void too_deep() {
    throw_user_error("an expression is nested deeper than " + std::to_string(kDeepestExpression) +
                         " levels, which has no serialised form",
                     {}, "compute a part of it in a tensor of its own");
  }

  Json node(const Expr& e, const std::vector<int64_t>& children) {
    const std::string type = to_string(e.dtype());
    switch (e.kind()) {
      case ExprKind::IntImm: return Json::array({"int", type, e.as<IntImm>()->value});
      case ExprKind::FloatImm: {
        const double value = e.as<FloatImm>()->value;
        if (std::isfinite(value)) return Json::array({"float", type, value});
        return Json::array({"float", type, to_hex(std::bit_cast<uint64_t>(value))});
      }
      case ExprKind::Cast: return Json::array({"cast", type, children[0]});
      case ExprKind::Unary:
        return Json::array({"unary", to_string(e.as<Unary>()->op), children[0]});
      case ExprKind::Binary:
        return Json::array({"binary", to_string(e.as<Binary>()->op), children[0], children[1]});
      case ExprKind::Select: return Json::array({"select", children[0], children[1], children[2]});
      case ExprKind::Load:
      case ExprKind::Reduce: {
        Json out = leaf_(e);
        Json list = Json::array_of(children);
        // ["load", operation, output, indices], ["reduce", reducer, sources, axes, component]
        if (e.kind() == ExprKind::Load) {
          out.push_back(std::move(list));
          return out;
        }
        return Json::array({out.at(0), out.at(1), std::move(list), out.at(2), out.at(3)});
      }
      case ExprKind::Var: return leaf_(e);
      case ExprKind::Ramp:
      case ExprKind::Broadcast:
      case ExprKind::Shuffle: break;
    }
    throw_internal_error("a declaration has a vector in it");
  }

  Leaf leaf_;
  std::unordered_map<const ExprNode*, Written> written_;
};

class DeclarationWriter {
 public:
  Json write(const ComputeDag& dag, const std::vector<Tensor>& args) {
    collect(dag);
    collect(dag.direct());
    for (const Tensor& t : args) collect(dag, t);
    number();
    Json operations = Json::array();
    for (const auto& [id, op] : operations_) operations.push_back(operation(*op));
    Json axes = Json::array();
    for (const auto& [id, axis] : axes_) {
      axes.push_back(Json::array({axis.name(), extent(axis->extent),
                                  axis->kind == AxisKind::Spatial ? "spatial" : "reduce"}));
    }
    Json out = Json::object({{"axes", std::move(axes)},
                             {"reducers", std::move(reducers_)},
                             {"operations", std::move(operations)},
                             {"outputs", tensors(dag.outputs())},
                             {"args", tensors(args)}});
    if (sizes_.size() > 0) out["sizes"] = std::move(sizes_);
    if (!dag.alternative().empty()) out["alternative"] = alternative(dag);
    return out;
  }

 private:
  void collect(const ComputeDag& dag) {
    for (int s = 0; s < dag.size(); ++s) collect(dag.stage_ref(s));
  }
  void collect(const ComputeDag& dag, const Tensor& arg) {
    if (!arg) throw_user_error("an argument of a declaration is a Tensor that was never assigned");
    if (!arg.op()->is_placeholder() && dag.index_of(arg.op()) < 0 &&
        dag.direct().index_of(arg.op()) < 0) {
      throw_user_error("the argument '" + arg.name() + "' is not computed in the declaration",
                       arg.op()->where(), "give placeholders and tensors of the graph");
    }
    collect(arg.op_ref());
  }
  /// Collects operations and axes. They are sorted by creation, so producers precede consumers.
  void collect(const Ref<const Operation>& op) {
    operations_.emplace(op->output_buffer(0)->id, op);
    for (const auto* axes : {&op->axes(), &op->reduce_axes()}) {
      for (const Axis& a : *axes) axes_.emplace(a.var()->id, a);
    }
  }
  void number() {
    for (const auto& [id, op] : operations_) {
      numbers_.emplace(op.get(), static_cast<int64_t>(numbers_.size()));
    }
    int64_t next = 0;
    for (const auto& [id, axis] : axes_) axis_numbers_.emplace(axis.var().get(), next++);
  }

  /// The number of a symbolic size in the list of sizes.
  int64_t size_number(const VarNode* v) {
    const auto [at, fresh] = size_numbers_.emplace(v, static_cast<int64_t>(size_numbers_.size()));
    if (fresh) sizes_.push_back(Json::array({v->name, v->size->lo, v->size->hi}));
    return at->second;
  }

  /// A number, or [constant, [size, factor]...] for their sum.
  Json extent(const Expr& e) {
    if (const int64_t* value = as_int(e)) return Json(*value);
    const std::optional<Affine> sum = as_affine(e);
    HEDDLE_ICHECK(sum, "a symbolic extent is a sum of sizes");
    Json out = Json::array({sum->constant});
    for (const Affine::Term& t : sum->terms)
      out.push_back(Json::array({size_number(t.var.get()), t.coefficient}));
    return out;
  }
  Json tensor(const Tensor& t) const { return Json::array({numbers_.at(t.op()), t.index()}); }
  Json tensors(const std::vector<Tensor>& list) const {
    Json out = Json::array();
    for (const Tensor& t : list) out.push_back(tensor(t));
    return out;
  }
  Json axis_list(const std::vector<Axis>& axes) const {
    Json out = Json::array();
    for (const Axis& a : axes) out.push_back(axis_numbers_.at(a.var().get()));
    return out;
  }

  Json operation(const Operation& op) {
    if (op.is_placeholder()) {
      const Buffer& buffer = op.output_buffer(0);
      Json shape = Json::array();
      for (const Expr& e : buffer->shape) shape.push_back(extent(e));
      return Json::object({{"placeholder", op.name()},
                           {"type", to_string(buffer->dtype)},
                           {"shape", std::move(shape)},
                           {"constant", op.is_constant()}});
    }
    Json nodes = Json::array(), bodies = Json::array();
    for (const Expr& body : op.bodies()) bodies.push_back(nodes_.write(body, nodes));
    return Json::object({{"compute", op.name()},
                         {"tag", op.tag()},
                         {"axes", axis_list(op.axes())},
                         {"nodes", std::move(nodes)},
                         {"bodies", std::move(bodies)}});
  }

  Json leaf(const Expr& e) {
    if (const VarNode* v = e.as<VarNode>()) {
      if (v->size) return Json::array({"size", size_number(v)});
      return Json::array({"axis", axis_numbers_.at(v)});
    }
    if (const Load* load = e.as<Load>()) {
      const Tensor t = tensor_of(load->buffer);
      return Json::array({"load", numbers_.at(t.op()), t.index()});
    }
    const auto* r = e.as<Reduce>();
    return Json::array({"reduce", reducer(*r->combiner), axis_list(r->axes), r->index});
  }

  int64_t reducer(const Combiner& c) {
    const auto known = reducer_numbers_.find(&c);
    if (known != reducer_numbers_.end()) return known->second;
    const auto number = static_cast<int64_t>(reducer_numbers_.size());
    reducer_numbers_.emplace(&c, number);
    reducers_.push_back(c.kind == ReduceKind::Custom
                            ? custom(c)
                            : Json::object({{"builtin", builtin_name(c.kind)}}));
    return number;
  }

  static Json custom(const Combiner& c) {
    NodeWriter writer([&](const Expr& e) {
      for (size_t i = 0; i < c.size(); ++i) {
        if (c.lhs[i].get() == e.get()) return Json::array({"lhs", i});
        if (c.rhs[i].get() == e.get()) return Json::array({"rhs", i});
      }
      throw_internal_error("reducer '" + c.name + "' uses a variable that is not one of its own");
    });
    Json types = Json::array(), nodes = Json::array(), identity = Json::array();
    Json result = Json::array();
    for (size_t i = 0; i < c.size(); ++i) {
      types.push_back(to_string(c.lhs[i]->dtype));
      Json one = Json::array();
      NodeWriter(nullptr).write(c.identity[i], one);
      identity.push_back(one.at(0));
    }
    for (const Expr& r : c.result) result.push_back(writer.write(r, nodes));
    return Json::object({{"name", c.name},
                         {"commutative", c.commutative},
                         {"types", std::move(types)},
                         {"identity", std::move(identity)},
                         {"nodes", std::move(nodes)},
                         {"result", std::move(result)}});
  }

  Json alternative(const ComputeDag& dag) const {
    Json placeholders = Json::array();
    for (const Tensor& theirs : dag.direct().placeholders()) {
      const Tensor ours = dag.counterpart(theirs);
      if (!ours.same_as(theirs))
        placeholders.push_back(Json::array({tensor(theirs), tensor(ours)}));
    }
    return Json::object({{"name", dag.alternative()},
                         {"direct", tensors(dag.direct().outputs())},
                         {"placeholders", std::move(placeholders)}});
  }

  std::map<uint64_t, Ref<const Operation>> operations_;
  std::map<uint64_t, Axis> axes_;
  std::unordered_map<const Operation*, int64_t> numbers_;
  std::unordered_map<const VarNode*, int64_t> axis_numbers_;
  std::unordered_map<const Combiner*, int64_t> reducer_numbers_;
  std::unordered_map<const VarNode*, int64_t> size_numbers_;
  Json sizes_ = Json::array();
  Json reducers_ = Json::array();
  NodeWriter nodes_{[this](const Expr& e) { return leaf(e); }};
};

}  // namespace

Json declaration_to_json(const ComputeDag& dag, const std::vector<Tensor>& args) {
  Json declaration = DeclarationWriter().write(dag, args);
  const uint64_t checksum = declaration_checksum(declaration);
  return Json::object({{"format", kDeclarationFormat},
                       {"version", kDeclarationVersion},
                       {"checksum", to_hex(checksum)},
                       {"structural_hash", to_hex(dag.structural_hash())},
                       {"declaration", std::move(declaration)}});
}

}  // namespace heddle
