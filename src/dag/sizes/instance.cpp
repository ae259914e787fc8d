#include "heddle/dag/instance.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "dag/creation_order.h"
#include "heddle/ir/simplify.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

class Replacer {
 public:
  Replacer(const dag::CreationOrder& parts, const std::vector<std::pair<Var, Expr>>& values) {
    for (const auto& [size, value] : values) vars_[size.get()] = value;
    for (const auto& [id, axis] : parts.axes) {
      const Axis made(axis.name(), simplify(replace(axis->extent)), axis->kind);
      axes_.emplace(axis.get(), made);
      vars_[axis.var().get()] = made.var().expr();
    }
    for (const auto& [id, op] : parts.operations) add(*op);
  }

  Instance take(const std::vector<Tensor>& outputs) {
    for (const Tensor& t : outputs) instance_.outputs.push_back(instance_.of(t));
    return std::move(instance_);
  }

 private:
  void add(const Operation& op) {
    Ref<const Operation> made;
    if (op.is_placeholder()) {
      Shape shape;
      for (const Expr& e : op.output_buffer(0)->shape) shape.push_back(replace(e));
      const DataType dtype = op.output_buffer(0)->dtype;
      made = Operation::make_placeholder(std::move(shape), dtype, op.name(), op.is_constant(),
                                         op.where(), op.shared_data());
    } else {
      std::vector<Axis> axes;
      for (const Axis& a : op.axes()) axes.push_back(axes_.at(a.get()));
      std::vector<Expr> bodies;
      for (const Expr& body : op.bodies()) bodies.push_back(replace(body));
      made = Operation::make_compute(op.name(), std::move(axes), std::move(bodies), op.tag(),
                                     op.where());
    }
    for (int i = 0; i < op.num_outputs(); ++i) {
      instance_.tensors.emplace_back(op.output(i), made->output(i));
      buffers_.emplace(op.output_buffer(i).get(), made->output_buffer(i));
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
      Expr out = map_children(x, [&](const Expr& c) { return replace(c); });
      if (const Load* load = out.as<Load>()) {
        const auto at = buffers_.find(load->buffer.get());
        if (at != buffers_.end()) return make_load(at->second, load->indices);
      }
      return out;
    });
  }

  std::unordered_map<const VarNode*, Expr> vars_;
  std::unordered_map<const AxisNode*, Axis> axes_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
  RewriteMemo memo_;
  Instance instance_;
};

void check_values(const std::vector<Var>& sizes, const std::vector<SizeValue>& values) {
  for (const Var& size : sizes) {
    const auto at = std::find_if(values.begin(), values.end(),
                                 [&](const SizeValue& v) { return v.size.same_as(size); });
    if (at == values.end())
      throw_user_error("the size '" + size->name + "' has no value", {},
                       "give one for each dimension of the declaration");
    if (at->value < size->size->lo || at->value > size->size->hi)
      throw_user_error("the size '" + size->name + "' is " + std::to_string(at->value) +
                       ", and its range is " + std::to_string(size->size->lo) + " to " +
                       std::to_string(size->size->hi));
  }
}

}  // namespace

SizeValue::SizeValue(const Dim& d, int64_t elements, Where where)
    : size(d.variable()), value(elements / d.multiple()) {
  if (elements < d.lo() || elements > d.hi() || elements % d.multiple() != 0)
    throw_user_error(
        "dimension '" + d.name() + "' cannot be " + std::to_string(elements) + ": its range is " +
            std::to_string(d.lo()) + " to " + std::to_string(d.hi()) +
            (d.multiple() > 1 ? ", multiples of " + std::to_string(d.multiple()) + " only" : ""),
        where);
}

Tensor Instance::of(const Tensor& t) const {
  for (const auto& [family, here] : tensors) {
    if (family.same_as(t)) return here;
  }
  throw_user_error("'" + (t ? t.name() : "a Tensor that was never assigned") +
                   "' is no tensor of the declaration");
}

std::vector<Tensor> Instance::of(const std::vector<Tensor>& list) const {
  std::vector<Tensor> out;
  for (const Tensor& t : list) out.push_back(of(t));
  return out;
}

std::vector<Var> sizes_of(const std::vector<Tensor>& outputs) {
  const dag::CreationOrder parts(outputs);
  std::vector<Var> sizes;
  for (const auto& [id, op] : parts.operations) {
    if (!op->is_placeholder()) continue;
    for (const Expr& e : op->output_buffer(0)->shape) add_sizes(e, &sizes);
  }
  for (const auto& [id, axis] : parts.axes) add_sizes(axis->extent, &sizes);
  for (const auto& [id, op] : parts.operations) {
    for (const Expr& body : op->bodies()) add_sizes(body, &sizes);
  }
  return sizes;
}

Instance at_sizes(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& values) {
  check_values(sizes_of(outputs), values);
  std::vector<std::pair<Var, Expr>> numbers;
  for (const SizeValue& v : values) numbers.emplace_back(v.size, Expr(v.value));
  return Replacer(dag::CreationOrder(outputs), numbers).take(outputs);
}

Instance with_size(const std::vector<Tensor>& outputs, const Var& size, const Expr& value) {
  return Replacer(dag::CreationOrder(outputs), {{size, value}}).take(outputs);
}

}  // namespace heddle
