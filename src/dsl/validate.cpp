#include "dsl/validate.h"

#include <algorithm>

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "ir/depth.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

// The largest number of elements. Bytes and sums of indices then fit 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 56;

bool contains_reduce(const Expr& e) {
  return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Reduce; });
}

bool same_reduction(const Reduce& a, const Reduce& b) {
  if (a.combiner.get() != b.combiner.get() || a.sources.size() != b.sources.size() ||
      a.axes.size() != b.axes.size())
    return false;
  for (size_t i = 0; i < a.sources.size(); ++i)
    if (!equal(a.sources[i], b.sources[i])) return false;
  for (size_t i = 0; i < a.axes.size(); ++i)
    if (!a.axes[i].same_as(b.axes[i])) return false;
  return true;
}

std::string names_of(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& a : axes) text += (text.empty() ? "" : ", ") + a.name();
  return text;
}

void check_variables(const std::string& name, const std::vector<Axis>& axes,
                     const std::vector<Axis>& reduce_axes, const Expr& value, const Where& where) {
  const auto among = [](const std::vector<Axis>& known, const VarNode* v) {
    return std::any_of(known.begin(), known.end(),
                       [&](const Axis& a) { return a.var().get() == v; });
  };
  visit(value, [&](const Expr& e) {
    const VarNode* v = e.as<VarNode>();
    if (!v || v->size || among(axes, v) || among(reduce_axes, v)) return;
    const std::string own = axes.empty() ? "it has none" : names_of(axes);
    throw_user_error("'" + name + "' uses variable '" + v->name +
                         "', which is neither an axis of it (" + own + ") nor reduced over in it",
                     where,
                     "give a reduce axis to the reduction, as in sum(value, " + v->name +
                         "); an axis of another compute cannot be used here");
  });
}

/// Checks a single body that is a reduction, or that must not contain one.
void check_form(const std::string& name, const Expr& body, const Where& where) {
  if (!body.defined())
    throw_user_error("the body of '" + name + "' is an Expr that was never assigned", where);
  if (is_too_deep(body))
    throw_user_error("the body of '" + name + "' is nested deeper than " +
                         std::to_string(kDeepestExpression) + " levels",
                     where,
                     "compute parts of it in tensors of their own, or use a reduction: sum(x, k)");
  if (body.dtype().is_vector())
    throw_user_error("the body of '" + name + "' has the vector type " + to_string(body.dtype()),
                     where, "a body computes one element");
  const Reduce* reduce = body.as<Reduce>();
  if (!reduce) {
    if (contains_reduce(body))
      throw_user_error("the body of '" + name + "' uses a reduction inside a larger expression",
                       where,
                       "a reduction must be the whole body: give it a compute of its own and read "
                       "that tensor here");
    return;
  }
  for (const Expr& source : reduce->sources)
    if (contains_reduce(source))
      throw_user_error("the reduction of '" + name + "' reduces over another reduction", where,
                       "give the inner reduction a compute of its own, or reduce over several axes "
                       "at once: sum(value, {k, l})");
  for (size_t i = 0; i < reduce->axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (reduce->axes[i].same_as(reduce->axes[j]))
        throw_user_error(
            "the reduction of '" + name + "' is given axis '" + reduce->axes[i].name() + "' twice",
            where, "make a second axis with reduce_axis");
}

/// Checks an extent that is not constant.
void check_symbolic(const Expr& extent, const std::string& what, const Where& where) {
  if (!is_symbolic(extent) || !as_affine(extent))
    throw_user_error(
        "the extent of " + what + " is '" + to_string(extent) + "', which is no sum of dimensions",
        where, "use constants, and dimensions made with dim(name, lo, hi) times constants");
  const Interval r = range_of(extent, {});
  if (r.min < 1 || r.max > kMostElements)
    throw_user_error("the extent of " + what + " is " + size_text(extent), where,
                     "give its dimensions a range in which it is 1 to 2^56");
}

}  // namespace

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + to_string(shape[i]);
  return text + ")";
}

Expr check_extent(const Expr& extent, const std::string& what, const Where& where) {
  if (!extent.defined()) throw_user_error("the extent of " + what + " was never assigned", where);
  if (!extent.dtype().is_integral() || extent.dtype().is_bool() || extent.dtype().is_vector())
    throw_user_error("the extent of " + what + " is '" + to_string(extent) + "' of type " +
                         to_string(extent.dtype()),
                     where, "an extent is an integer");
  const Expr folded = simplify(cast(i64, extent));
  const int64_t* value = as_int(folded);
  if (!value) {
    check_symbolic(folded, what, where);
    return folded;
  }
  if (*value < 0)
    throw_user_error("the extent of " + what + " is " + std::to_string(*value), where,
                     "extents are at least 0");
  return folded;
}

Shape check_shape(const Shape& shape, const std::string& name, const Where& where) {
  Shape result;
  int64_t elements = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    result.push_back(
        check_extent(shape[d], "dimension " + std::to_string(d) + " of '" + name + "'", where));
    if (__builtin_mul_overflow(elements, largest_extent(result.back()), &elements) ||
        elements > kMostElements)
      throw_user_error("'" + name + "' of shape " + shape_text(shape) + " has too many elements",
                       where, "at most 2^56");
  }
  return result;
}

std::vector<Axis> check_bodies(const std::string& name, const std::vector<Axis>& axes,
                               const std::vector<Expr>& bodies, const Where& where) {
  if (bodies.empty()) throw_user_error("'" + name + "' has no outputs", where);
  for (const Expr& body : bodies) check_form(name, body, where);

  const Reduce* first = bodies[0].as<Reduce>();
  for (size_t i = 1; i < bodies.size(); ++i) {
    const Reduce* reduce = bodies[i].as<Reduce>();
    if ((first != nullptr) != (reduce != nullptr) || (first && !same_reduction(*first, *reduce)))
      throw_user_error("the outputs of '" + name + "' are not one reduction", where,
                       "the outputs of one compute_all are either the components of one reducer, "
                       "in order, or no reductions; use a compute for each of the others");
  }
  if (first) {
    if (first->combiner->size() != bodies.size())
      throw_user_error("'" + name + "' has " + std::to_string(bodies.size()) +
                           (bodies.size() == 1 ? " output" : " outputs") + " but its reducer '" +
                           first->combiner->name + "' has " +
                           std::to_string(first->combiner->size()) +
                           (first->combiner->size() == 1 ? " component" : " components"),
                       where, "use compute_all and return what the reducer returned");
    for (size_t i = 0; i < bodies.size(); ++i)
      if (bodies[i].as<Reduce>()->index != static_cast<int>(i))
        throw_user_error("output " + std::to_string(i) + " of '" + name + "' is component " +
                             std::to_string(bodies[i].as<Reduce>()->index) + " of its reducer",
                         where, "return the components in order, as the reducer returned them");
  }
  const std::vector<Axis> reduce_axes = first ? first->axes : std::vector<Axis>{};
  for (const Expr& body : bodies) check_variables(name, axes, reduce_axes, body, where);
  return reduce_axes;
}

}  // namespace heddle
