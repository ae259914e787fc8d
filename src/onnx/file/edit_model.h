// Changes to the file of a model that leave all else as it is, byte for byte: names of tensors that
// nodes read, nodes and initialisers that are added, and initialisers that go.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/file/graph.h"

namespace heddle::onnx {

/// A node of the default domain whose attributes are integers.
struct NewNode {
  std::string name, op;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, int64_t> attributes = {};
};

struct ModelEdit {
  /// The names in place of those in the file: of the node at a position in Graph::nodes, and of its
  /// input at a position.
  std::map<std::pair<size_t, size_t>, std::string> inputs;
  std::vector<NewNode> first;                    ///< before all nodes of the file
  std::map<size_t, std::vector<NewNode>> after;  ///< behind the node at this position
  std::map<std::string, NDArray> initializers;   ///< new ones
  std::set<std::string> dropped;                 ///< initialisers that nothing reads any more
};

/// The bytes of a model's file after the changes. `model` is what was read from `bytes`.
/// Initialisers that lie in files of their own become part of the result. Throws a User error for a
/// result beyond 2 GiB, the limit of protobuf.
std::string edited_model(std::string_view bytes, const Model& model, const ModelEdit& edit);

}  // namespace heddle::onnx
