// Tensors and what declares them. Names that a caller leaves out are those of the C++ API.
#include "arrays.h"
#include "bind.h"

namespace heddle::python {
namespace {

[[noreturn]] void no_expression(nb::handle value, const std::string& name, const char* wanted) {
  throw_user_error("the body of '" + name + "' returns a value of type '" +
                       nb::type_name(value.type()).c_str() + "'",
                   caller(), std::string("it returns ") + wanted);
}

nb::object evaluated(const nb::callable& body, const std::vector<Axis>& axes) {
  nb::list list;
  for (const Axis& a : axes) list.append(a);
  return body(*list);
}

Tensor declared(const Shape& shape, const nb::callable& body, const std::string& name,
                const std::string& tag) {
  return compute(
      shape,
      [&](const std::vector<Axis>& axes) {
        const nb::object value = evaluated(body, axes);
        Expr e;
        if (!nb::try_cast<Expr>(value, e))
          no_expression(value, name, "an expression; for several outputs there is compute_all");
        return e;
      },
      name, tag, caller());
}

std::vector<Tensor> all_declared(const Shape& shape, const nb::callable& body,
                                 const std::string& name, const std::string& tag) {
  return compute_all(
      shape,
      [&](const std::vector<Axis>& axes) {
        const nb::object value = evaluated(body, axes);
        std::vector<Expr> list;
        if (!nb::try_cast<std::vector<Expr>>(value, list))
          no_expression(value, name, "a list of expressions, one for each output");
        return list;
      },
      name, tag, caller());
}

nb::object shape_of(const Tensor& t) {
  nb::list list;
  for (const Expr& e : t.shape()) {
    const IntImm* constant = e.as<IntImm>();
    if (constant) list.append(constant->value);
    if (!constant) list.append(e);
  }
  return nb::tuple(list);
}

Expr element(const Tensor& t, nb::handle index) {
  if (!nb::isinstance<nb::tuple>(index)) {
    Expr one;
    if (nb::try_cast<Expr>(index, one)) return t.at({one});
  }
  std::vector<Expr> list;
  if (!nb::try_cast<std::vector<Expr>>(index, list))
    throw_user_error("an index of '" + t.name() + "' is no expression", caller(),
                     "write one index for each dimension: A[i, k]");
  return t.at(list);
}

void bind_tensor_operators(nb::class_<Tensor>& t) {
  t.def(
       "__add__", [](const Tensor& a, const Tensor& b) { return ops::add(a, b, caller()); },
       nb::is_operator())
      .def(
          "__add__", [](const Tensor& a, const Expr& b) { return ops::add(a, b, caller()); },
          nb::is_operator())
      .def(
          "__radd__", [](const Tensor& a, const Expr& b) { return ops::add(a, b, caller()); },
          nb::is_operator())
      .def(
          "__sub__", [](const Tensor& a, const Tensor& b) { return ops::sub(a, b, caller()); },
          nb::is_operator())
      .def(
          "__sub__", [](const Tensor& a, const Expr& b) { return ops::sub(a, b, caller()); },
          nb::is_operator())
      .def(
          "__rsub__",
          [](const Tensor& a, const Expr& b) {
            return ops::add(ops::neg(a, caller()), b, caller());
          },
          nb::is_operator())
      .def(
          "__mul__", [](const Tensor& a, const Tensor& b) { return ops::mul(a, b, caller()); },
          nb::is_operator())
      .def(
          "__mul__", [](const Tensor& a, const Expr& b) { return ops::mul(a, b, caller()); },
          nb::is_operator())
      .def(
          "__rmul__", [](const Tensor& a, const Expr& b) { return ops::mul(a, b, caller()); },
          nb::is_operator())
      .def(
          "__truediv__", [](const Tensor& a, const Tensor& b) { return ops::div(a, b, caller()); },
          nb::is_operator())
      .def(
          "__truediv__", [](const Tensor& a, const Expr& b) { return ops::div(a, b, caller()); },
          nb::is_operator())
      .def(
          "__matmul__",
          [](const Tensor& a, const Tensor& b) {
            return ops::matmul(a, b, false, false, {}, caller());
          },
          nb::is_operator())
      .def("__neg__", [](const Tensor& a) { return ops::neg(a, caller()); })
      .def(
          "__eq__",
          [](const Tensor& a, nb::handle b) {
            Tensor other;
            return nb::try_cast<Tensor>(b, other, false) && a.same_as(other);
          },
          "Whether both are the same tensor. ops.equal compares elements.")
      .def("__hash__",
           [](const Tensor& t) {
             return std::hash<const void*>()(t.op()) + static_cast<size_t>(t.index());
           })
      .def("__repr__", [](const Tensor& t) {
        return "Tensor('" + t.name() + "', " + to_string(t.dtype()) + ", " +
               nb::repr(shape_of(t)).c_str() + ")";
      });
}

void bind_tensor(nb::module_& m) {
  auto t = nb::class_<Tensor>(m, "Tensor",
                              "One output of a declaration, or an input. t[i, j] reads an element.")
               .def("__getitem__", &element, "index"_a,
                    "Reads one element, with one index for each dimension.")
               .def("__len__",
                    [](const Tensor&) -> size_t {
                      throw nb::type_error("a tensor of a declaration has no elements to count");
                    })
               .def_prop_ro("name", &Tensor::name, "The name, for messages.")
               .def_prop_ro("shape", &shape_of,
                            "The extents: numbers, and expressions where a call gives the size.")
               .def_prop_ro("dtype", &Tensor::dtype, "The type of the elements: \"f32\".")
               .def_prop_ro("ndim", &Tensor::rank, "The number of dimensions.")
               .def_prop_ro(
                   "values",
                   [](const Tensor& t) {
                     const NDArray* data = t.op()->data();
                     return data ? nb::cast(*data) : nb::none();
                   },
                   "The array of a constant; None for all other tensors.");
  bind_tensor_operators(t);
}

/// (reducer, rule) as the derivative of the reducer. The rule is called while the gradient is declared.
ReducerDerivative derivative_of(const std::pair<Reducer, nb::callable>& declared) {
  const nb::callable& rule = declared.second;
  return {declared.first, [rule](const std::vector<Expr>& element, const std::vector<Expr>& result,
                                 const std::vector<Expr>& head) {
            return nb::cast<std::vector<Expr>>(rule(element, result, head));
          }};
}

/// (output, inputs, rule), whose rule returns None for an input that receives nothing.
CustomGradient custom_of(const std::tuple<Tensor, std::vector<Tensor>, nb::callable>& declared) {
  const nb::callable& rule = std::get<2>(declared);
  return {std::get<0>(declared), std::get<1>(declared), [rule](const Tensor& head) {
            std::vector<Tensor> all;
            for (auto& t : nb::cast<std::vector<std::optional<Tensor>>>(rule(head)))
              all.push_back(t.value_or(Tensor()));
            return all;
          }};
}

void bind_gradient(nb::module_& m) {
  m.def(
      "gradient",
      [](const Outputs& outputs, const Outputs& wrt, const std::optional<Outputs>& heads,
         bool allow_unused, const std::vector<Tensor>& stop,
         const std::vector<std::pair<Reducer, nb::callable>>& reducers,
         const std::vector<std::tuple<Tensor, std::vector<Tensor>, nb::callable>>& custom) {
        GradientOptions options;
        options.unconnected = allow_unused ? Unconnected::Zero : Unconnected::Refuse;
        options.stop = stop;
        for (const auto& r : reducers) options.reducers.push_back(derivative_of(r));
        for (const auto& c : custom) options.custom.push_back(custom_of(c));
        return gradient(outputs.list, wrt.list, heads ? heads->list : std::vector<Tensor>{},
                        options, caller());
      },
      "outputs"_a, "wrt"_a, "heads"_a = nb::none(), "allow_unused"_a = false,
      "stop"_a = std::vector<Tensor>{}, "reducers"_a = nb::list(), "custom"_a = nb::list(),
      "The gradients of the outputs with respect to each tensor of `wrt`, as declarations: the sum "
      "of the derivatives times `heads`, which may be left out where each output has one element. "
      "`allow_unused` gives zeros for a tensor that no output depends on; `stop` lists tensors "
      "that count as constants. `reducers` declares derivatives of reducers: (reducer, "
      "rule(element, result, head)), lists of components, of which the rule returns what each of "
      "the element receives. `custom` declares gradients of tensors: (output, inputs, rule(head)), "
      "which returns a tensor, or None, for each input.");
}

template <class At>
Tensor updated(const Tensor& state, const Tensor& rows, const At& at) {
  return update(state, rows, at, caller());
}

void bind_updates(nb::module_& m) {
  m.def("update", &updated<Expr>, "state"_a, "rows"_a, "row"_a,
        "The state with `rows` in place of its rows from `row` on, counted along the first "
        "dimension. A network whose updates name both writes them into the memory of the state.");
  m.def("update", &updated<Tensor>, "state"_a, "rows"_a, "places"_a,
        "The state with `rows` at places that are data: integers (q...), where rows are (q..., "
        "r...) and r... are the last dimensions of the state. The dimensions before those are "
        "counted as one. A place that is no row writes nothing, and of rows with one place the "
        "last is taken.");
}

}  // namespace

void bind_declarations(nb::module_& m) {
  bind_tensor(m);
  bind_gradient(m);
  m.def(
      "placeholder",
      [](const Shape& shape, DataType dtype, const std::string& name) {
        return placeholder(shape, dtype, name, caller());
      },
      "shape"_a, "dtype"_a = f32, "name"_a = "placeholder",
      "An input. The extents of `shape` are numbers or dimensions (dim).");
  m.def(
      "constant_placeholder",
      [](const Shape& shape, DataType dtype, const std::string& name) {
        return constant_placeholder(shape, dtype, name, caller());
      },
      "shape"_a, "dtype"_a = f32, "name"_a = "weights",
      "An input that stays the same from call to call, such as weights.");
  m.def(
      "constant",
      [](nb::handle values, const std::string& name) {
        return constant(read_array(values, [&] { return "the array of '" + name + "'"; }), name,
                        caller());
      },
      "values"_a, "name"_a = "constant",
      "An input with the values of an array on the CPU, which is shared. Kernels supply it "
      "themselves.");
  m.def(
      "reduce_axis",
      [](const Expr& extent, const std::string& name) {
        return reduce_axis(extent, name, caller());
      },
      "extent"_a, "name"_a = "k", "An axis over 0 to `extent` to reduce along.");
  m.def(
      "dim",
      [](const std::string& name, int64_t lo, int64_t hi) { return dim(name, lo, hi, caller()); },
      "name"_a, "lo"_a, "hi"_a, "A dimension of `lo` to `hi` elements, whose size a call gives.");
  m.def("compute", &declared, "shape"_a, "body"_a, "name"_a = "compute", "tag"_a = "",
        "Declares a tensor whose element at (i, j, ...) is body(i, j, ...). The body takes an axis "
        "for each dimension.");
  bind_updates(m);
  m.def(
      "placeholders",
      [](const Outputs& outputs) { return ComputeDag(outputs.list).placeholders(); }, "outputs"_a,
      "The inputs that a declaration reads, in order of first use; constants are among them.");
  m.def("compute_all", &all_declared, "shape"_a, "body"_a, "name"_a = "compute", "tag"_a = "",
        "Several outputs that are computed together: the body returns a list of expressions.");
}

}  // namespace heddle::python
