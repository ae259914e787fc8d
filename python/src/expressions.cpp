// Expressions: elements, axes, and what bodies compute with them.
#include "bind.h"

namespace heddle::python {
namespace {

using Binary = Expr (*)(Expr, Expr);
using Unary = Expr (*)(Expr);

/// Bools and integers share Python's operators of bits.
Expr bits(const Expr& a, const Expr& b, Binary of_bools, Binary of_integers) {
  return a.dtype().is_bool() || b.dtype().is_bool() ? of_bools(a, b) : of_integers(a, b);
}

/// The operators of T, which is an expression, an axis or a dimension.
template <class T>
void bind_operators(nb::class_<T>& c) {
  const auto both = [&](const char* name, const char* reflected, auto f) {
    c.def(
        name, [f](const T& a, const Expr& b) -> Expr { return f(Expr(a), b); }, nb::is_operator());
    c.def(
        reflected, [f](const T& a, const Expr& b) -> Expr { return f(b, Expr(a)); },
        nb::is_operator());
  };
  both("__add__", "__radd__", [](const Expr& a, const Expr& b) { return a + b; });
  both("__sub__", "__rsub__", [](const Expr& a, const Expr& b) { return a - b; });
  both("__mul__", "__rmul__", [](const Expr& a, const Expr& b) { return a * b; });
  both("__truediv__", "__rtruediv__", [](const Expr& a, const Expr& b) { return a / b; });
  both("__floordiv__", "__rfloordiv__",
       [](const Expr& a, const Expr& b) { return floordiv(a, b); });
  both("__mod__", "__rmod__", [](const Expr& a, const Expr& b) { return floormod(a, b); });
  both("__pow__", "__rpow__", [](const Expr& a, const Expr& b) { return pow(a, b); });
  both("__and__", "__rand__",
       [](const Expr& a, const Expr& b) { return bits(a, b, logical_and, bitwise_and); });
  both("__or__", "__ror__",
       [](const Expr& a, const Expr& b) { return bits(a, b, logical_or, bitwise_or); });
  both("__xor__", "__rxor__", [](const Expr& a, const Expr& b) { return bitwise_xor(a, b); });
  both("__lshift__", "__rlshift__", [](const Expr& a, const Expr& b) { return shift_left(a, b); });
  both("__rshift__", "__rrshift__", [](const Expr& a, const Expr& b) { return shift_right(a, b); });
  // Python reflects comparisons by itself.
  const auto compare = [&](const char* name, auto f) {
    c.def(
        name, [f](const T& a, const Expr& b) -> Expr { return f(Expr(a), b); }, nb::is_operator());
  };
  compare("__eq__", [](const Expr& a, const Expr& b) { return a == b; });
  compare("__ne__", [](const Expr& a, const Expr& b) { return a != b; });
  compare("__lt__", [](const Expr& a, const Expr& b) { return a < b; });
  compare("__le__", [](const Expr& a, const Expr& b) { return a <= b; });
  compare("__gt__", [](const Expr& a, const Expr& b) { return a > b; });
  compare("__ge__", [](const Expr& a, const Expr& b) { return a >= b; });
  c.def("__neg__", [](const T& a) -> Expr { return -Expr(a); });
  c.def("__abs__", [](const T& a) -> Expr { return abs(Expr(a)); });
  c.def("__invert__", [](const T& a) -> Expr {
    return Expr(a).dtype().is_bool() ? Expr(!Expr(a)) : bitwise_not(Expr(a));
  });
  c.def("__hash__", [](const T& a) { return std::hash<const void*>()(Expr(a).get()); });
  c.def("__bool__", [](const T&) -> bool {
    throw_user_error(
        "an expression is neither true nor false while it is declared", caller(),
        "choose with heddle.select, and join conditions by & and |: (0 <= i) & (i < n)");
  });
}

void bind_functions(nb::module_& m) {
  const std::vector<std::pair<const char*, Unary>> of_one = {
      {"exp", exp},     {"exp2", exp2},   {"expm1", expm1}, {"log", log},     {"log2", log2},
      {"log10", log10}, {"log1p", log1p}, {"sqrt", sqrt},   {"rsqrt", rsqrt}, {"sin", sin},
      {"cos", cos},     {"tan", tan},     {"asin", asin},   {"acos", acos},   {"atan", atan},
      {"sinh", sinh},   {"cosh", cosh},   {"tanh", tanh},   {"erf", erf},     {"abs", abs},
      {"floor", floor}, {"ceil", ceil},   {"round", round}, {"trunc", trunc}, {"isnan", isnan},
      {"isinf", isinf}};
  for (const auto& [name, function] : of_one)
    m.def(
        name, [function](const Expr& x) { return function(x); }, "x"_a,
        "Of one element; the name is that of C.");
  const std::vector<std::pair<const char*, Binary>> of_two = {{"fmax", fmax},
                                                              {"fmin", fmin},
                                                              {"pow", pow},
                                                              {"atan2", atan2},
                                                              {"logical_and", logical_and},
                                                              {"logical_or", logical_or}};
  for (const auto& [name, function] : of_two)
    m.def(
        name, [function](const Expr& a, const Expr& b) { return function(a, b); }, "a"_a, "b"_a,
        "Of two elements.");
  m.def("select", &select, "condition"_a, "on_true"_a, "on_false"_a,
        "`on_true` where `condition` (bool) holds, else `on_false`. Reads in the other one are not "
        "executed.");
  m.def("cast", static_cast<Expr (*)(DataType, Expr)>(&cast), "dtype"_a, "value"_a,
        "Converts a value. Float to int truncates; anything to bool is != 0.");
  m.def("lowest_value", &lowest_value, "dtype"_a, "The least value of a type; -inf for floats.");
  m.def("highest_value", &highest_value, "dtype"_a, "The largest value of a type; inf for floats.");
}

/// An axis, or several.
std::vector<Axis> axes_of(nb::handle axes) {
  Axis one;
  if (nb::try_cast<Axis>(axes, one, false)) return {one};
  std::vector<Axis> list;
  if (nb::try_cast<std::vector<Axis>>(axes, list, false)) return list;
  throw_user_error("a reduction is over an axis, or over a list of axes", caller(),
                   "make one with heddle.reduce_axis(extent)");
}

void bind_reductions(nb::module_& m) {
  using Reduction = Expr (*)(Expr, std::vector<Axis>);
  struct Row {
    const char* name;
    Reduction function;
    const char* doc;
  };
  const std::vector<Row> rows = {
      {"sum", sum,
       "The sum over one axis or several. f16 and bf16 are accumulated in f32, and rounded once."},
      {"prod", prod, "The product over one axis or several."},
      {"any", any, "Whether any of the bools is true."},
      {"all", all, "Whether all of the bools are true."},
      {"reduce_fmax", reduce_fmax, "The largest element that is not NaN."},
      {"reduce_fmin", reduce_fmin, "The smallest element that is not NaN."}};
  for (const auto& [name, f, doc] : rows)
    m.def(
        name, [f = f](const Expr& value, nb::handle axes) { return f(value, axes_of(axes)); },
        "value"_a, "axes"_a, doc);
  // With an axis a reduction, with a second expression the larger of two.
  const auto extreme = [&](const char* name, Reduction reduce, Binary of_two, const char* doc) {
    m.def(
        name,
        [reduce, of_two](const Expr& a, nb::handle b) {
          if (nb::isinstance<Axis>(b) || nb::isinstance<nb::list>(b) ||
              nb::isinstance<nb::tuple>(b))
            return reduce(a, axes_of(b));
          Expr other;
          if (!nb::try_cast<Expr>(b, other))
            throw_user_error("the second argument is neither an axis nor an expression", caller());
          return of_two(a, other);
        },
        "value"_a, "axes_or_other"_a, doc);
  };
  extreme("max", reduce_max, max,
          "The largest element over axes, or the larger of two; NaN where one is NaN.");
  extreme("min", reduce_min, min,
          "The smallest element over axes, or the smaller of two; NaN where one is NaN.");
  m.def(
      "sum_in",
      [](DataType t, const Expr& value, nb::handle axes) {
        return sum_in(t, value, axes_of(axes));
      },
      "dtype"_a, "value"_a, "axes"_a,
      "A sum that is accumulated in a type, which is that of the result.");
  m.def(
      "prod_in",
      [](DataType t, const Expr& value, nb::handle axes) {
        return prod_in(t, value, axes_of(axes));
      },
      "dtype"_a, "value"_a, "axes"_a, "A product that is accumulated in a type.");
}

void bind_reducers(nb::module_& m) {
  nb::class_<Reducer>(m, "Reducer", "An associative operation on tuples, and its identity.")
      .def(
          "__call__",
          [](const Reducer& r, const std::vector<Expr>& sources, nb::handle axes) {
            return r(sources, axes_of(axes));
          },
          "sources"_a, "axes"_a, "The components of the reduction: the body of compute_all.");
  m.def(
      "reducer",
      [](const std::string& name, const std::vector<DataType>& types,
         const std::vector<Expr>& identity, const nb::callable& combine, bool commutative) {
        const auto combined = [&](const std::vector<Expr>& a, const std::vector<Expr>& b) {
          return nb::cast<std::vector<Expr>>(combine(a, b));
        };
        return reducer(name, types, identity, combined, commutative, caller());
      },
      "name"_a, "types"_a, "identity"_a, "combine"_a, "commutative"_a = true,
      "Makes a reducer. `combine(a, b)` takes two lists of partial results and returns their "
      "combination.");
}

}  // namespace

void bind_expressions(nb::module_& m) {
  auto expr =
      nb::class_<Expr>(m, "Expr", "A scalar that bodies compute: an element, an index, a number.");
  auto axis = nb::class_<Axis>(
      m, "Axis", "An index of a declaration, over 0 to its extent. It is an expression (i64).");
  auto size = nb::class_<Dim>(
      m, "Dim", "A dimension whose size a call gives. It is an extent, and an expression (i64).");
  expr.def(nb::init_implicit<bool>())
      .def(nb::init_implicit<int64_t>())
      .def(nb::init_implicit<double>())
      .def(nb::init_implicit<Axis>())
      .def(nb::init_implicit<Dim>())
      .def_prop_ro(
          "dtype", [](const Expr& e) { return e.dtype(); }, "The type: \"f32\".")
      .def("__repr__", [](const Expr& e) { return to_string(e); });
  axis.def_prop_ro(
          "name", [](const Axis& a) { return a.name(); }, "The name, for messages.")
      .def_prop_ro(
          "extent", [](const Axis& a) { return a.extent(); }, "The constant extent.")
      .def("__repr__", [](const Axis& a) { return "Axis('" + a.name() + "')"; });
  size.def_prop_ro("name", &Dim::name, "The name, for messages.")
      .def_prop_ro("lo", &Dim::lo, "The smallest size.")
      .def_prop_ro("hi", &Dim::hi, "The largest size.")
      .def(
          "multiple_of",
          [](const Dim& d, int64_t multiple) { return d.multiple_of(multiple, caller()); },
          "multiple"_a, "A new dimension with those sizes of this one that `multiple` divides.")
      .def("__repr__", [](const Dim& d) {
        return "dim('" + d.name() + "', " + std::to_string(d.lo()) + ", " + std::to_string(d.hi()) +
               ")";
      });
  bind_operators(expr);
  bind_operators(axis);
  bind_operators(size);
  bind_functions(m);
  bind_reductions(m);
  bind_reducers(m);
}

}  // namespace heddle::python
