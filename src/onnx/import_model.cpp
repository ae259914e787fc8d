// Reads a file and gives it to the importer for its sizes: constant ones, or ranges.
#include "heddle/onnx/import.h"

#include <utility>

#include "heddle/support/error.h"
#include "onnx/file/check_model.h"
#include "onnx/file/graph.h"

namespace heddle {

bool onnx_available() { return true; }

namespace onnx {

OnnxModel import_model(Model model, const OnnxOptions& options, Where where) {
  const std::string path = model.path;
  try {
    // What does not depend on sizes is checked once.
    check_precision(options.precision);
    inline_functions(model);
    check_operators(model.graph);
    check_dims(model.graph, options);
    order_nodes(model);
    if (!options.ranges.empty()) {
      OnnxModel made = import_ranges(model, options, where);
      return options.states ? with_states(std::move(made), options) : made;
    }
    if (options.states)
      throw_user_error("states need a range of past rows, and no dimension has one", {},
                       "give the dimension of the past one: past=1..960");
    return import_constant(std::move(model), options, where, nullptr);
  } catch (const Error& e) {
    throw Error(e.kind, "'" + path + "': " + e.message, where, e.help);
  }
}

}  // namespace onnx

OnnxModel import_onnx(const std::string& path, const OnnxOptions& options, Where where) {
  return onnx::import_model(onnx::read_model(path), options, where);
}

}  // namespace heddle
