// The line of the user, found in the frames of the interpreter.
#include <unordered_set>

#include "bind.h"

namespace heddle::python {
namespace {

/// The folder of this package, whose own lines are not the user's.
const std::string& package_folder() {
  static const std::string folder = [] {
    const auto file =
        nb::cast<std::string>(nb::module_::import_("heddle._errors").attr("__file__"));
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

/// A Where keeps a pointer: names of files stay.
const char* kept(const std::string& file) {
  static auto* const files = new std::unordered_set<std::string>;
  return files->insert(file).first->c_str();
}

}  // namespace

Where caller() {
  const nb::gil_scoped_acquire lock;  // errors come from calls that run without it, too
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none()) {
    const auto file = nb::cast<std::string>(frame.attr("f_code").attr("co_filename"));
    if (!file.starts_with(package_folder()))
      return {kept(file), PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame.ptr()))};
    frame = frame.attr("f_back");
  }
  return {};
}

}  // namespace heddle::python
