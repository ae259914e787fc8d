#include "ops/common.h"

#include <algorithm>

namespace heddle::ops::impl {

void fail(const Call& call, const std::string& message, const std::string& help) {
  throw_user_error(std::string(call.op) + ": " + message, call.where, help);
}

std::string text(const Dims& dims) {
  std::string result = "(";
  for (size_t i = 0; i < dims.size(); ++i) result += (i ? ", " : "") + std::to_string(dims[i]);
  return result + ")";
}

std::string describe(const Tensor& t) { return to_string(t.dtype()) + " " + text(t.extents()); }

Shape to_shape(const Dims& dims) { return Shape(dims.begin(), dims.end()); }

int64_t product(const Dims& dims) {
  int64_t result = 1;
  for (int64_t d : dims) result *= d;
  return result;
}

void check_rank(const Call& call, const Tensor& t, const char* what, int lowest, int highest) {
  if (!t) fail(call, std::string("argument '") + what + "' is a Tensor that was never assigned");
  if (t.rank() >= lowest && t.rank() <= highest) return;
  std::string wanted = std::to_string(lowest);
  if (highest >= 64)
    wanted += " or more";
  else if (highest != lowest)
    wanted += " to " + std::to_string(highest);
  fail(call, std::string("argument '") + what + "' has shape " + text(t.extents()) +
                 ", and needs " + wanted + (wanted == "1" ? " dimension" : " dimensions"));
}

void check_float(const Call& call, const Tensor& t, const char* what) {
  if (!t.dtype().is_float())
    fail(call,
         std::string("argument '") + what + "' is " + describe(t) + ", and needs a float type",
         "convert it with ops::cast(x, f32)");
}

void check_same_type(const Call& call, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype())
    fail(call, "'" + a.name() + "' is " + describe(a) + " but '" + b.name() + "' is " + describe(b),
         "convert one of them with ops::cast");
}

int normal_axis(const Call& call, int axis, int rank) {
  if (axis < -rank || axis >= rank)
    fail(call,
         "axis " + std::to_string(axis) + " of a tensor with " + std::to_string(rank) +
             (rank == 1 ? " dimension" : " dimensions"),
         "an axis is in [" + std::to_string(-rank) + ", " + std::to_string(rank - 1) + "]");
  return axis < 0 ? axis + rank : axis;
}

std::vector<int> normal_axes(const Call& call, const std::vector<int>& axes, int rank) {
  std::vector<int> result;
  for (int axis : axes) result.push_back(normal_axis(call, axis, rank));
  std::sort(result.begin(), result.end());
  for (size_t i = 1; i < result.size(); ++i)
    if (result[i] == result[i - 1])
      fail(call, "axis " + std::to_string(result[i]) + " is given twice");
  return result;
}

Dims per_dimension(const Call& call, const char* what, const Dims& values, int n,
                   int64_t fallback) {
  if (values.empty()) return Dims(static_cast<size_t>(n), fallback);
  if (values.size() == 1) return Dims(static_cast<size_t>(n), values[0]);
  if (values.size() != static_cast<size_t>(n))
    fail(call,
         std::string("'") + what + "' " + text(values) + " has " + std::to_string(values.size()) +
             " values for " + std::to_string(n) + (n == 1 ? " dimension" : " dimensions"),
         "give one value for all, or one a dimension");
  return values;
}

Dims broadcast_dims(const Call& call, const std::vector<Tensor>& tensors) {
  Dims result;
  for (const Tensor& t : tensors) {
    check_rank(call, t, "tensor", 0);
    const Dims dims = t.extents();
    if (dims.size() > result.size()) result.insert(result.begin(), dims.size() - result.size(), 1);
    const size_t offset = result.size() - dims.size();
    for (size_t d = 0; d < dims.size(); ++d) {
      int64_t& extent = result[offset + d];
      if (extent == dims[d] || dims[d] == 1) continue;
      if (extent != 1) {
        std::string shapes;
        for (const Tensor& other : tensors)
          shapes += (shapes.empty() ? "" : " and ") + text(other.extents());
        fail(call, "the shapes " + shapes + " do not broadcast",
             "from the back, extents must be equal or 1");
      }
      extent = dims[d];
    }
  }
  return result;
}

Expr read_broadcast(const Tensor& t, const std::vector<Axis>& at) {
  const size_t rank = static_cast<size_t>(t.rank()), offset = at.size() - rank;
  std::vector<Expr> indices;
  for (size_t d = 0; d < rank; ++d) {
    const Axis& axis = at[offset + d];
    // Where both extents are 1, the index is the axis itself, which keeps the read element-wise.
    indices.push_back(t.extent(static_cast<int>(d)) == axis.extent() ? Expr(axis) : Expr(0));
  }
  return t.at(std::move(indices));
}

DataType wide(DataType t) { return t.is_small_float() ? f32 : t; }

Tensor convert(const Call& call, const Tensor& t, DataType dtype) {
  if (t.dtype() == dtype) return t;
  return compute(
      t.shape(), [&](const std::vector<Axis>& i) { return cast(dtype, t(i)); },
      t.name() + "_" + to_string(dtype), "cast", call.where);
}

std::vector<Expr> exprs(const std::vector<Axis>& axes) {
  return std::vector<Expr>(axes.begin(), axes.end());
}

}  // namespace heddle::ops::impl
