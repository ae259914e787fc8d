// Nodes that are computed at import.
#pragma once

#include <vector>

#include "onnx/file/graph.h"
#include "onnx/value.h"

namespace heddle::onnx {

/// Whether all arrays in the values are known.
bool all_known(const std::vector<Value>& values);

/// The outputs of a node, computed where its inputs are known arrays. Nodes with graphs inside, whose
/// values are computed node by node, and those of too many elements stay as they are declared. `notes` may
/// be null.
std::vector<Value> folded(const Node& node, const std::vector<Value>& inputs,
                          std::vector<Value> outputs, ConstantPool& pool, ImportNotes* notes);

}  // namespace heddle::onnx
