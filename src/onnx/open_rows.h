// Which operators take tensors with an open number of rows.
#pragma once

#include <optional>

#include "onnx/node_scope.h"

namespace heddle::onnx {

/// The rows of the results of a node of which an input has an open number of rows; nothing where none has. A
/// User error where the operator would see rows that are no results.
std::optional<OpenRows> rows_of_results(const NodeScope& s, const OperatorEntry& op);

}  // namespace heddle::onnx
