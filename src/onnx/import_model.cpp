// Reads a file and gives it to the importer for its sizes: constant ones, or ranges.
#include "heddle/onnx/import.h"

#include <utility>

#include "heddle/support/error.h"
#include "onnx/file/check_model.h"
#include "onnx/file/graph.h"

namespace heddle {

bool onnx_available() { return true; }

namespace onnx {
namespace {

bool all_rotate(const Graph& graph) {
  bool any = false;
  for (const Node& node : graph.nodes) {
    if (node.op != "GroupQueryAttention" || node.domain != "com.microsoft") continue;
    const auto rotary = node.attributes.find("do_rotary");
    if (rotary == node.attributes.end()) return false;
    const int64_t* value = std::get_if<int64_t>(&rotary->second.value);
    if (!value || *value == 0) return false;
    any = true;
  }
  return any;
}

}  // namespace

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
      if (!options.states) return made;
      made = with_states(std::move(made), options);
      made.own_positions = all_rotate(model.graph);
      return made;
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
