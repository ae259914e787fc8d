// Tensors of a model whose values are in its file.
#pragma once

#include <map>
#include <string>

#include "onnx/file/graph.h"

namespace heddle::quantize {

/// Initialisers, and the results of nodes `Constant` that have an array.
inline std::map<std::string, NDArray> constants_of(const onnx::Graph& graph) {
  std::map<std::string, NDArray> all = graph.initializers;
  for (const onnx::Node& node : graph.nodes) {
    if (node.op != "Constant" || !node.domain.empty() || node.outputs.size() != 1) continue;
    const auto found = node.attributes.find("value");
    if (found == node.attributes.end()) continue;
    if (const auto* array = std::get_if<NDArray>(&found->second.value))
      all.emplace(node.outputs[0], *array);
  }
  return all;
}

}  // namespace heddle::quantize
