// What is checked of a model before its nodes are declared.
#pragma once

#include <cstddef>
#include <string>

#include "onnx/file/graph.h"

namespace heddle::onnx {

/// The largest number of mistakes that one message names.
inline constexpr size_t kMostMistakes = 20;
void add_line(std::string& text, const std::string& line);

/// The name of a dimension: that of the file, or "x:0".
std::string dim_name(const ValueInfo& info, size_t d);

/// These throw User errors: for a precision that is none, for operators that are not supported, and
/// for a name in the options that no input has, then for inputs' dimensions that have no extent.
void check_precision(DataType precision);
void check_operators(const Graph& graph);
void check_dims(const Graph& graph, const OnnxOptions& options);

}  // namespace heddle::onnx
