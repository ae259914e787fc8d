#include <utility>

#include "dsl/validate.h"
#include "heddle/dsl/tensor.h"

namespace heddle {

std::vector<Tensor> Operation::inputs() const {
  std::vector<Tensor> result;
  const auto collect = [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load) return;
    Tensor tensor = tensor_of(load->buffer);
    if (!tensor) return;
    for (const Tensor& seen : result)
      if (seen.same_as(tensor)) return;
    result.push_back(std::move(tensor));
  };
  for (const Expr& body : bodies_) {
    visit(body, collect);
    // The components of a tuple reduction share all their sources.
    if (body.kind() == ExprKind::Reduce) break;
  }
  return result;
}

Ref<const Operation> Operation::make_placeholder(Shape shape, DataType dtype, std::string name,
                                                 bool constant, Where where) {
  if (dtype.is_vector())
    throw_user_error("placeholder '" + name + "' has the vector type " + to_string(dtype), where,
                     "tensors hold scalars: " + to_string(dtype.element()));
  Ref<Operation> op(new Operation);
  op->kind_ = Kind::Placeholder;
  op->name_ = std::move(name);
  op->where_ = where;
  op->constant_ = constant;
  op->outputs_.emplace_back(new BufferNode(op->name_, dtype, check_shape(shape, op->name_, where),
                                           Scope::Argument, op.get()));
  return op;
}

Ref<const Operation> Operation::make_compute(std::string name, std::vector<Axis> axes,
                                             std::vector<Expr> bodies, std::string tag,
                                             Where where) {
  std::vector<Axis> reduce_axes = check_bodies(name, axes, bodies, where);
  check_bounds(name, axes, reduce_axes, bodies, where);

  Ref<Operation> op(new Operation);
  op->kind_ = Kind::Compute;
  op->name_ = std::move(name);
  op->tag_ = std::move(tag);
  op->where_ = where;
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(axis->extent);
  op->outputs_.reserve(bodies.size());  // a handle may be moved, but a copy would keep `op` alive
  for (size_t i = 0; i < bodies.size(); ++i) {
    std::string output = bodies.size() == 1 ? op->name_ : op->name_ + "." + std::to_string(i);
    op->outputs_.emplace_back(
        new BufferNode(std::move(output), bodies[i].dtype(), shape, Scope::Global, op.get()));
  }
  op->axes_ = std::move(axes);
  op->reduce_axes_ = std::move(reduce_axes);
  op->bodies_ = std::move(bodies);
  return op;
}

}  // namespace heddle
