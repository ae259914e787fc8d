// The compute DSL. It states what is computed and never how.
//
//   Tensor A = placeholder({M, K}, f32, "A"), B = placeholder({K, N}, f32, "B");
//   Axis k = reduce_axis(K, "k");
//   Tensor C = compute({M, N}, [&](Axis i, Axis j) { return sum(A(i, k) * B(k, j), k); }, "C");
//
// Declarations are validated when made (rank, types, reduce axes used outside their reduction,
// out-of-bounds reads found by interval analysis); mistakes throw `Error` with the caller's line.
// Reads must be provably in bounds. The conditions of the selects around a read are taken into
// account, so padding is `select(i >= 1 && i <= N, A(i - 1), 0.f)`. An index that is itself read
// from a tensor is clamped: `A(max(0, min(N - 1, I(i))))`. The entries of shapes are constants or
// dimensions (dim.h), whose sizes calls give. A constant extent may be 0, as in an empty batch:
// such a tensor has no elements, and a reduction over nothing gives its identity.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/support/error.h"
#include "heddle/support/function_ref.h"

namespace heddle {

class NDArray;
class Operation;
using Shape = std::vector<Expr>;

/// A handle to one output of an operation. It is cheap to copy and compares by identity
/// (`same_as`).
class Tensor {
 public:
  Tensor() = default;
  Tensor(Ref<const Operation> op, int index);

  const Operation* op() const { return op_.get(); }
  const Ref<const Operation>& op_ref() const { return op_; }
  int index() const { return index_; }  ///< which output of `op()`
  const Buffer& buffer() const;         ///< the buffer that loads name
  const std::string& name() const;
  DataType dtype() const;
  int rank() const;
  /// The constant extent; a negative d counts from the last dimension. This and the next two throw
  /// a User error where an extent is symbolic (dim.h).
  int64_t extent(int d) const;
  std::vector<int64_t> extents() const;
  int64_t size() const;        ///< the number of elements
  const Shape& shape() const;  ///< the extents as expressions
  explicit operator bool() const { return static_cast<bool>(op_); }
  bool same_as(const Tensor& o) const { return op_.get() == o.op_.get() && index_ == o.index_; }

  /// Reads one element: `A(i, k)`. One index per dimension.
  template <class... I>
    requires(sizeof...(I) > 0 && (std::convertible_to<I, Expr> && ...))
  Expr operator()(I&&... indices) const {
    return at({Expr(std::forward<I>(indices))...});
  }
  Expr operator()(const std::vector<Axis>& indices) const;
  /// The same with indices in a vector; a rank-0 tensor is read by `T.at({})`.
  Expr at(std::vector<Expr> indices) const;

 private:
  Ref<const Operation> op_;
  int index_ = 0;
};

/// An operation that produces tensors: a placeholder (an input) or a compute. Immutable.
class Operation : public RefCounted {
 public:
  enum class Kind : uint8_t { Placeholder, Compute };

  Kind kind() const { return kind_; }
  bool is_placeholder() const { return kind_ == Kind::Placeholder; }
  const std::string& name() const { return name_; }
  /// Free text for messages and reports, such as "conv2d".
  const std::string& tag() const { return tag_; }
  const Where& where() const { return where_; }
  /// A placeholder whose contents never change between calls (weights). Stages that depend only on
  /// such inputs are computed once and kept.
  bool is_constant() const { return constant_; }
  /// The values of a `constant` (dsl/arrays.h); null for all other operations.
  const NDArray* data() const { return data_.get(); }
  const std::shared_ptr<const NDArray>& shared_data() const { return data_; }
  const std::vector<Axis>& axes() const { return axes_; }  ///< spatial; one per output dimension
  const std::vector<Axis>& reduce_axes() const { return reduce_axes_; }
  /// One body for each output. Either all are Reduce nodes of one reduction (components 0, 1, ...)
  /// or none is.
  const std::vector<Expr>& bodies() const { return bodies_; }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const Buffer& output_buffer(int i) const { return outputs_[static_cast<size_t>(i)]; }
  Tensor output(int i) const { return Tensor(Ref<const Operation>(this), i); }
  bool is_reduction() const { return !reduce_axes_.empty(); }
  /// The distinct tensors the bodies read, in order of first appearance.
  std::vector<Tensor> inputs() const;
  /// The tensors that the bodies name and never read, because the result has no elements or the
  /// reduction has none. Such a body is kept as a constant, which reads nothing.
  const std::vector<Tensor>& unread() const { return unread_; }

  /// `data`: the values of a constant, where they are known.
  static Ref<const Operation> make_placeholder(Shape shape, DataType dtype, std::string name,
                                               bool constant, Where where,
                                               std::shared_ptr<const NDArray> data = nullptr);
  static Ref<const Operation> make_compute(std::string name, std::vector<Axis> axes,
                                           std::vector<Expr> bodies, std::string tag, Where where);

 private:
  Operation() = default;
  Kind kind_ = Kind::Placeholder;
  std::string name_, tag_;
  Where where_;
  bool constant_ = false;
  std::shared_ptr<const NDArray> data_;
  std::vector<Tensor> unread_;
  std::vector<Axis> axes_, reduce_axes_;
  std::vector<Expr> bodies_;
  std::vector<Buffer> outputs_;  // the first handles, which are not counted: BufferNode::producer
};

/// The tensor that a buffer of the DSL belongs to; a null tensor for lowered buffers.
Tensor tensor_of(const Buffer& buffer);

/// An input of shape `shape`. Throws a User error for a negative extent.
Tensor placeholder(Shape shape, DataType dtype = f32, std::string name = "placeholder",
                   Where where = Where::current());
/// An input that stays the same from call to call, such as trained weights.
Tensor constant_placeholder(Shape shape, DataType dtype = f32, std::string name = "weights",
                            Where where = Where::current());

/// The same with extents that are numbers, such as those of an NDArray.
template <std::integral I>
Tensor placeholder(const std::vector<I>& extents, DataType dtype = f32,
                   std::string name = "placeholder", Where where = Where::current()) {
  return placeholder(Shape(extents.begin(), extents.end()), dtype, std::move(name), where);
}
template <std::integral I>
Tensor constant_placeholder(const std::vector<I>& extents, DataType dtype = f32,
                            std::string name = "weights", Where where = Where::current()) {
  return constant_placeholder(Shape(extents.begin(), extents.end()), dtype, std::move(name), where);
}

/// An axis over [0, extent) to reduce along.
Axis reduce_axis(Expr extent, std::string name = "k", Where where = Where::current());

namespace internal {
std::vector<Axis> make_spatial_axes(const std::string& name, const Shape& shape,
                                    const Where& where);
Tensor finish_compute(std::string name, std::vector<Axis> axes, std::vector<Expr> bodies,
                      std::string tag, const Where& where);
std::vector<Tensor> finish_compute_all(std::string name, std::vector<Axis> axes,
                                       std::vector<Expr> bodies, std::string tag,
                                       const Where& where);
[[noreturn]] void bad_arity(const std::string& name, size_t rank, int arity, const Where& where);
/// Runs a body; a user error in it gets the place and name of the declaration.
void run_body(const std::string& name, const Where& where, FunctionRef<void()> body);

inline constexpr int kTakesVector = -1, kNoBody = -2;

template <class F, size_t... I>
constexpr bool callable_with_axes(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((void)I, std::declval<const Axis&>())...>;
}
template <class F, int N = 0>
constexpr int body_arity() {
  if constexpr (std::is_invocable_v<F&, const std::vector<Axis>&>) {
    return kTakesVector;
  } else if constexpr (N > 8) {
    return kNoBody;
  } else if constexpr (callable_with_axes<F>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return body_arity<F, N + 1>();
  }
}
template <class F, size_t... I>
auto call_with_axes(F& f, const std::vector<Axis>& axes, std::index_sequence<I...>) {
  return f(axes[I]...);
}
template <int N, class F>
auto invoke_body(F& f, const std::vector<Axis>& axes) {
  if constexpr (N == kTakesVector) {
    return f(axes);
  } else {
    return call_with_axes(f, axes, std::make_index_sequence<N>());
  }
}
/// The result of the body as a `Result`. Every check precedes the first use of `body`, so that a
/// wrong lambda gives an error of one line.
template <class Result, class F>
Result evaluate_body(F& body, const std::vector<Axis>& axes, const std::string& name,
                     const Where& where) {
  constexpr int arity = body_arity<F>();
  static_assert(arity != kNoBody,
                "the body of compute must take (Axis i, Axis j, ...), one Axis a dimension "
                "(at most 8), or one const std::vector<Axis>&");
  Result result;
  if constexpr (arity != kNoBody) {
    using Returned = decltype(invoke_body<arity>(body, axes));
    constexpr bool right = std::is_convertible_v<Returned, Result>;
    static_assert(right || !std::is_same_v<Result, Expr>,
                  "the body of compute must return one Expr (several outputs: compute_all)");
    static_assert(right || std::is_same_v<Result, Expr>,
                  "the body of compute_all must return std::vector<Expr>, one an output");
    if constexpr (right) {
      if (arity != kTakesVector && axes.size() != static_cast<size_t>(arity))
        bad_arity(name, axes.size(), arity, where);
      run_body(name, where, [&] { result = Result(invoke_body<arity>(body, axes)); });
    }
  }
  return result;
}
}  // namespace internal

/// Declares a tensor of shape `shape` whose element at (i, j, ...) is `body(i, j, ...)`. The body
/// takes one `Axis` per dimension, or one `const std::vector<Axis>&` for any rank. The type of the
/// body is the type of the tensor. A reduction has the type of the values that it reduces.
template <class F>
Tensor compute(const Shape& shape, F body, std::string name = "compute", std::string tag = "",
               Where where = Where::current()) {
  std::vector<Axis> axes = internal::make_spatial_axes(name, shape, where);
  std::vector<Expr> bodies{internal::evaluate_body<Expr>(body, axes, name, where)};
  return internal::finish_compute(std::move(name), std::move(axes), std::move(bodies),
                                  std::move(tag), where);
}

/// Several outputs computed together. The body returns a `std::vector<Expr>`; for a tuple
/// reduction, the result of the reducer.
template <class F>
std::vector<Tensor> compute_all(const Shape& shape, F body, std::string name = "compute",
                                std::string tag = "", Where where = Where::current()) {
  std::vector<Axis> axes = internal::make_spatial_axes(name, shape, where);
  auto bodies = internal::evaluate_body<std::vector<Expr>>(body, axes, name, where);
  return internal::finish_compute_all(std::move(name), std::move(axes), std::move(bodies),
                                      std::move(tag), where);
}

/// The same with extents that are numbers, such as those of an NDArray.
template <std::integral I, class F>
Tensor compute(const std::vector<I>& extents, F body, std::string name = "compute",
               std::string tag = "", Where where = Where::current()) {
  return compute(Shape(extents.begin(), extents.end()), std::move(body), std::move(name),
                 std::move(tag), where);
}
template <std::integral I, class F>
std::vector<Tensor> compute_all(const std::vector<I>& extents, F body, std::string name = "compute",
                                std::string tag = "", Where where = Where::current()) {
  return compute_all(Shape(extents.begin(), extents.end()), std::move(body), std::move(name),
                     std::move(tag), where);
}

// ---- reductions: only as the whole body of a compute, or converted there: cast(t, sum(x, k)) ----
// sum adds, prod multiplies, any and all combine bools, max and min take the extreme, which is NaN
// where an element is NaN. The result has the type of `value`. Sums and products of f16 and bf16
// are accumulated in f32 and rounded once. Without elements the result is the identity.
/// Sums and products of f16 and bf16 are accumulated in f32, and the result is rounded once.
Expr sum(Expr value, std::vector<Axis> axes);
/// The product of all elements.
Expr prod(Expr value, std::vector<Axis> axes);
/// The largest and the smallest element.
Expr reduce_max(Expr value, std::vector<Axis> axes);
Expr reduce_min(Expr value, std::vector<Axis> axes);
/// Whether any, and whether all, of the bools are true.
Expr any(Expr condition, std::vector<Axis> axes);
Expr all(Expr condition, std::vector<Axis> axes);
/// Sums and products that are accumulated in type `t`, which is the type of the result.
/// sum_in(bf16, x, {k}) rounds to bf16 after every addition. sum_in(f32, x, {k}) of bf16 keeps the
/// precision of f32.
Expr sum_in(DataType t, Expr value, std::vector<Axis> axes);
Expr prod_in(DataType t, Expr value, std::vector<Axis> axes);
/// The largest and smallest element that is not NaN, or NaN where all elements are. (`max` and
/// `min` are NaN where any element is.)
Expr reduce_fmax(Expr value, std::vector<Axis> axes);
Expr reduce_fmin(Expr value, std::vector<Axis> axes);
/// The same reductions over one axis. `max` and `min` are reduce_max and reduce_min.
inline Expr sum(Expr value, Axis axis) {
  return sum(std::move(value), std::vector{std::move(axis)});
}
inline Expr prod(Expr value, Axis axis) {
  return prod(std::move(value), std::vector{std::move(axis)});
}
inline Expr any(Expr value, Axis axis) {
  return any(std::move(value), std::vector{std::move(axis)});
}
inline Expr all(Expr value, Axis axis) {
  return all(std::move(value), std::vector{std::move(axis)});
}
inline Expr max(Expr value, Axis axis) { return reduce_max(std::move(value), {std::move(axis)}); }
inline Expr max(Expr value, std::vector<Axis> axes) {
  return reduce_max(std::move(value), std::move(axes));
}
inline Expr min(Expr value, Axis axis) { return reduce_min(std::move(value), {std::move(axis)}); }
inline Expr min(Expr value, std::vector<Axis> axes) {
  return reduce_min(std::move(value), std::move(axes));
}

/// A user-defined reducer over tuples: an associative operation and its identity. It has one
/// component for each output.
///
///   Reducer argmax = reducer("argmax", {i64, f32}, {int64_t{-1}, -inf},
///       [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
///         ... return std::vector<Expr>{...};
///       });
///   auto out = compute_all({M}, [&](Axis i) { return argmax({k, A(i, k)}, {k}); });
class Reducer {
 public:
  std::vector<Expr> operator()(std::vector<Expr> sources, std::vector<Axis> axes) const;
  const Ref<const Combiner>& combiner() const { return combiner_; }

 private:
  friend Reducer reducer(
      std::string, std::vector<DataType>, std::vector<Expr>,
      const std::function<std::vector<Expr>(const std::vector<Expr>&, const std::vector<Expr>&)>&,
      bool, Where);
  Ref<const Combiner> combiner_;
};
/// Makes a reducer. `types` and `identity` have one entry for each component. `combine` takes two
/// partial results and returns their combination; it must be associative. A reducer that is not
/// commutative is never reordered. Throws a User error for lists of different lengths or other
/// types.
Reducer reducer(std::string name, std::vector<DataType> types, std::vector<Expr> identity,
                const std::function<std::vector<Expr>(const std::vector<Expr>&,
                                                      const std::vector<Expr>&)>& combine,
                bool commutative = true, Where where = Where::current());

namespace internal {
/// The built-in combiner of `kind` for `dtype`.
Ref<const Combiner> builtin_combiner(ReduceKind kind, DataType dtype);
}  // namespace internal

// ---- element functions ----
// They compute one element and throw a User error for operands of a wrong type. The mathematical
// functions have the names of C and take floats. Functions of f32 have errors of a few ulp
// (tests/codegen/llvm_math_test.cpp states each bound).
/// `on_true` where `condition` (bool) holds, else `on_false`. Loads in the other operand are not
/// executed.
Expr select(Expr condition, Expr on_true, Expr on_false);
Expr exp(Expr x);
Expr exp2(Expr x);
Expr expm1(Expr x);
Expr log(Expr x);
Expr log2(Expr x);
Expr log10(Expr x);
Expr log1p(Expr x);
Expr sqrt(Expr x);
Expr rsqrt(Expr x);
Expr sin(Expr x);
Expr cos(Expr x);
Expr tan(Expr x);
Expr asin(Expr x);
Expr acos(Expr x);
Expr atan(Expr x);
Expr sinh(Expr x);
Expr cosh(Expr x);
Expr tanh(Expr x);
Expr erf(Expr x);
Expr abs(Expr x);
Expr floor(Expr x);
Expr ceil(Expr x);
Expr round(Expr x);  ///< half to even, as ONNX and PyTorch
Expr trunc(Expr x);
/// An f32 or f64 rounded to tf32: 10 bits of mantissa, to nearest and ties away from zero. Types of 16
/// bits and less are held by tf32 and stay as they are.
Expr round_tf32(Expr x);
/// The larger, or smaller, of two floats. Where one is NaN, the result is the other. (`max` and
/// `min` of floats are NaN where either operand is.)
Expr fmax(Expr a, Expr b);
Expr fmin(Expr a, Expr b);
Expr pow(Expr x, Expr y);
Expr atan2(Expr y, Expr x);
Expr isnan(Expr x);
Expr isinf(Expr x);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr bitwise_and(Expr a, Expr b);
Expr bitwise_or(Expr a, Expr b);
Expr bitwise_xor(Expr a, Expr b);
Expr bitwise_not(Expr a);
Expr shift_left(Expr a, Expr b);
Expr shift_right(Expr a, Expr b);
Expr lowest_value(DataType t);  ///< -inf for floats
Expr highest_value(DataType t);

}  // namespace heddle
