#include "heddle/dsl/tensor.h"

#include <utility>

#include "dsl/validate.h"
#include "heddle/ir/print.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

std::string counted(size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

const Operation& defined(const Ref<const Operation>& op) {
  if (!op) throw_user_error("a Tensor that was never assigned is used");
  return *op;
}

int64_t constant_extent(const Tensor& t, size_t d) {
  const Expr& e = t.shape()[d];
  const int64_t* n = as_int(e);
  if (!n) fail_symbolic("dimension " + std::to_string(d) + " of '" + t.name() + "'", e);
  return *n;
}

}  // namespace

Tensor::Tensor(Ref<const Operation> op, int index) : op_(std::move(op)), index_(index) {}

const Buffer& Tensor::buffer() const { return defined(op_).output_buffer(index_); }
const std::string& Tensor::name() const { return buffer()->name; }
DataType Tensor::dtype() const { return buffer()->dtype; }
const Shape& Tensor::shape() const { return buffer()->shape; }
int Tensor::rank() const { return static_cast<int>(shape().size()); }

int64_t Tensor::extent(int d) const {
  if (d < -rank() || d >= rank())
    throw_user_error("tensor '" + name() + "' has no dimension " + std::to_string(d), {},
                     "its shape is " + shape_text(shape()));
  return constant_extent(*this, static_cast<size_t>(d < 0 ? d + rank() : d));
}

std::vector<int64_t> Tensor::extents() const {
  std::vector<int64_t> result;
  for (size_t d = 0; d < shape().size(); ++d) result.push_back(constant_extent(*this, d));
  return result;
}

int64_t Tensor::size() const {
  int64_t size = 1;
  for (const int64_t e : extents()) size *= e;
  return size;
}

Expr Tensor::operator()(const std::vector<Axis>& indices) const {
  return at(std::vector<Expr>(indices.begin(), indices.end()));
}

Expr Tensor::at(std::vector<Expr> indices) const {
  const Shape& extents = shape();
  if (indices.size() != extents.size())
    throw_user_error("tensor '" + name() + "' has " +
                         counted(extents.size(), "dimension", "dimensions") + " but is read with " +
                         counted(indices.size(), "index", "indices"),
                     {}, "its shape is " + shape_text(extents) + "; give one index a dimension");
  for (size_t d = 0; d < indices.size(); ++d) {
    Expr& index = indices[d];
    const std::string what = "index " + std::to_string(d) + " of tensor '" + name() + "'";
    if (!index.defined()) throw_user_error(what + " is an Expr that was never assigned");
    if (!index.dtype().is_integral() || index.dtype().is_bool() || index.dtype().is_vector())
      throw_user_error(what + " is '" + to_string(index) + "' of type " + to_string(index.dtype()),
                       {}, "an index is an integer; convert it with cast(i64, ...)");
    if (index.dtype() != i64) index = cast(i64, index);
  }
  return make_load(buffer(), std::move(indices));
}

Tensor tensor_of(const Buffer& buffer) {
  if (!buffer || !buffer->producer()) return {};
  // Only operations own buffers, so the producer is an operation.
  const auto* op = static_cast<const Operation*>(buffer->producer());
  for (int i = 0; i < op->num_outputs(); ++i)
    if (op->output_buffer(i) == buffer) return op->output(i);
  return {};
}

Tensor placeholder(Shape shape, DataType dtype, std::string name, Where where) {
  return Operation::make_placeholder(std::move(shape), dtype, std::move(name), false, where)
      ->output(0);
}

Tensor constant_placeholder(Shape shape, DataType dtype, std::string name, Where where) {
  return Operation::make_placeholder(std::move(shape), dtype, std::move(name), true, where)
      ->output(0);
}

Axis reduce_axis(Expr extent, std::string name, Where where) {
  Expr checked = check_extent(extent, "reduce axis '" + name + "'", where);
  return Axis(std::move(name), std::move(checked), AxisKind::Reduce);
}

namespace internal {

std::vector<Axis> make_spatial_axes(const std::string& name, const Shape& shape,
                                    const Where& where) {
  const Shape extents = check_shape(shape, name, where);
  std::vector<Axis> axes;
  for (size_t d = 0; d < extents.size(); ++d) {
    // C++ does not give access to the parameter names of a lambda. These are usual names for the
    // common ranks.
    std::string axis =
        extents.size() <= 2 ? std::string(1, d == 0 ? 'i' : 'j') : "i" + std::to_string(d);
    axes.emplace_back(std::move(axis), extents[d], AxisKind::Spatial);
  }
  return axes;
}

Tensor finish_compute(std::string name, std::vector<Axis> axes, std::vector<Expr> bodies,
                      std::string tag, const Where& where) {
  // A reduction is the whole body of a stage, so the conversion of its result is a stage of its
  // own.
  const Cast* converted = bodies.size() == 1 ? bodies[0].as<Cast>() : nullptr;
  if (const Reduce* r = converted ? converted->value.as<Reduce>() : nullptr;
      r && r->combiner->size() == 1) {
    Shape shape;
    for (const Axis& axis : axes) shape.push_back(axis->extent);
    const Tensor wide = finish_compute(name + "." + to_string(r->dtype), std::move(axes),
                                       {converted->value}, tag, where);
    std::vector<Axis> own = make_spatial_axes(name, shape, where);
    std::vector<Expr> body{cast(converted->dtype, wide(own))};
    return finish_compute(std::move(name), std::move(own), std::move(body), std::move(tag), where);
  }
  return Operation::make_compute(std::move(name), std::move(axes), std::move(bodies),
                                 std::move(tag), where)
      ->output(0);
}

std::vector<Tensor> finish_compute_all(std::string name, std::vector<Axis> axes,
                                       std::vector<Expr> bodies, std::string tag,
                                       const Where& where) {
  if (bodies.size() == 1)
    return {
        finish_compute(std::move(name), std::move(axes), std::move(bodies), std::move(tag), where)};
  const Ref<const Operation> op = Operation::make_compute(std::move(name), std::move(axes),
                                                          std::move(bodies), std::move(tag), where);
  std::vector<Tensor> outputs;
  for (int i = 0; i < op->num_outputs(); ++i) outputs.push_back(op->output(i));
  return outputs;
}

void bad_arity(const std::string& name, size_t rank, int arity, const Where& where) {
  throw_user_error("the shape of '" + name + "' has " + counted(rank, "dimension", "dimensions") +
                       " but its body takes " + counted(static_cast<size_t>(arity), "axis", "axes"),
                   where, "the body takes one Axis a dimension of the shape");
}

void run_body(const std::string& name, const Where& where, FunctionRef<void()> body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::User || error.where.known()) throw;
    throw_user_error(error.message + ", in the body of '" + name + "'", where, error.help);
  }
}

}  // namespace internal
}  // namespace heddle
