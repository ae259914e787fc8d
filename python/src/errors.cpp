// heddle::Error as heddle.Error (heddle/_errors.py), with the user's line in Python.
#include <exception>

#include "bind.h"

namespace heddle::python {
namespace {

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::User: return "user";
    case ErrorKind::Runtime: return "runtime";
    case ErrorKind::Internal: return "internal";
  }
  return "internal";
}

void raise(const Error& error) {
  // The line of a source of Heddle is of use in an internal error only.
  const Where where = error.where.known() ? error.where : caller();
  const nb::object type = nb::module_::import_("heddle._errors").attr("Error");
  const nb::object file = where.known() ? nb::cast(std::string(where.file)) : nb::none();
  const nb::object value = type(error.message, name_of(error.kind), error.help, file, where.line);
  PyErr_SetObject(type.ptr(), value.ptr());
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace heddle::python
