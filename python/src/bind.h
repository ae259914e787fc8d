// What the files of the extension module share: a function for each subject, the line of the caller, and conversions of
// types, choices by name and options.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cxxabi.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "heddle/heddle.h"

namespace heddle::python {

namespace nb = nanobind;
using namespace nb::literals;

void bind_errors(nb::module_& m);
void bind_arrays(nb::module_& m);
void bind_target(nb::module_& m);
void bind_expressions(nb::module_& m);
void bind_declarations(nb::module_& m);
void bind_elementwise(nb::module_& ops);
void bind_layers(nb::module_& ops);
void bind_movement(nb::module_& ops);
void bind_sampling(nb::module_& ops);
void bind_training(nb::module_& ops);
void bind_schedule(nb::module_& m);
void bind_choices(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_network(nb::module_& m);
void bind_generalize(nb::module_& m);
void bind_bound_calls(nb::module_& m);
void bind_tune(nb::module_& m);

/// The outputs of a declaration: in Python a tensor, or several.
struct Outputs {
  std::vector<Tensor> list;
};

/// The line of the innermost Python frame outside of this package, for messages.
Where caller();

/// Releases the GIL for a scope. A daemon thread that comes back when the interpreter has ended waits for the end of the process:
/// CPython before 3.14 would unwind its stack, which destructors do not survive.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) ::pause();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Reads "f32", a dtype of numpy, torch or ml_dtypes, or a scalar type of numpy. False for all else.
bool read_dtype(nb::handle source, DataType* out) noexcept;

/// A value of an enumeration and its name in Python.
template <class Enum>
using Names = std::vector<std::pair<std::string, Enum>>;
/// The value of this name. Throws a User error that lists the names; `what` is the word for them.
template <class Enum>
Enum named(const std::string& text, const std::string& what, const Names<Enum>& names) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known += (known.empty() ? "" : ", ") + name;
  }
  throw_user_error("there is no " + what + " '" + text + "'", caller(), "it is one of " + known);
}

/// The options that keywords name, as AutoSchedulerOptions has them.
AutoSchedulerOptions options_of(const nb::dict& keywords);
/// This machine where there is none.
const Target& target_or_host(const std::optional<Target>& target);

}  // namespace heddle::python

namespace nanobind::detail {

/// In Python a type is its name: "f32".
template <>
struct type_caster<heddle::DataType> {
  NB_TYPE_CASTER(heddle::DataType, const_name("str"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    return heddle::python::read_dtype(source, &value);
  }
  static handle from_cpp(heddle::DataType type, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_FromString(heddle::to_string(type).c_str());
  }
};

template <>
struct type_caster<heddle::python::Outputs> {
  NB_TYPE_CASTER(heddle::python::Outputs, make_caster<heddle::Tensor>::Name + const_name(" | ") +
                                              make_caster<std::vector<heddle::Tensor>>::Name)
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    heddle::Tensor one;
    if (!try_cast(source, one, false)) return try_cast(source, value.list, false);
    value.list = {one};
    return true;
  }
  static handle from_cpp(const heddle::python::Outputs& outputs, rv_policy policy,
                         cleanup_list* cleanup) noexcept {
    return make_caster<std::vector<heddle::Tensor>>::from_cpp(outputs.list, policy, cleanup);
  }
};

}  // namespace nanobind::detail
