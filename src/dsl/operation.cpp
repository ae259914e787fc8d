#include <utility>

#include "dsl/empty.h"
#include "dsl/validate.h"
#include "heddle/dsl/tensor.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

std::vector<Tensor> Operation::inputs() const { return tensors_read(bodies_); }

Ref<const Operation> Operation::make_placeholder(Shape shape, DataType dtype, std::string name,
                                                 bool constant, Where where,
                                                 std::shared_ptr<const NDArray> data) {
  HEDDLE_ICHECK(!data || constant, "only constants have data");
  if (dtype.is_vector())
    throw_user_error("placeholder '" + name + "' has the vector type " + to_string(dtype), where,
                     "tensors hold scalars: " + to_string(dtype.element()));
  Ref<Operation> op(new Operation);
  op->kind_ = Kind::Placeholder;
  op->name_ = std::move(name);
  op->where_ = where;
  op->constant_ = constant;
  op->data_ = std::move(data);
  op->outputs_.emplace_back(new BufferNode(op->name_, dtype, check_shape(shape, op->name_, where),
                                           Scope::Argument, op.get()));
  return op;
}

Ref<const Operation> Operation::make_compute(std::string name, std::vector<Axis> axes,
                                             std::vector<Expr> bodies, std::string tag,
                                             Where where) {
  std::vector<Axis> reduce_axes = check_bodies(name, axes, bodies, where);
  Ref<Operation> op(new Operation);
  // An operation without elements never evaluates its body, so it reads nothing.
  if (is_empty(axes) || is_empty(reduce_axes)) {
    op->unread_ = tensors_read(bodies);
    bodies = unevaluated(bodies, is_empty(axes));
    reduce_axes.clear();
  } else {
    check_bounds(name, axes, reduce_axes, bodies, where);
    bodies = without_empty_reads(bodies, &op->unread_);
  }
  op->kind_ = Kind::Compute;
  op->name_ = std::move(name);
  op->tag_ = std::move(tag);
  op->where_ = where;
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(axis->extent);
  op->outputs_.reserve(
      bodies.size());  // growing would copy handles, and a copy would keep `op` alive
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
