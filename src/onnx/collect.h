// The results of an import: its outputs, and the inputs and constants that they depend on.
#pragma once

#include "heddle/support/function_ref.h"
#include "onnx/file/graph.h"
#include "onnx/value.h"

namespace heddle::onnx {

/// Adds to `model`, which has all inputs of the graph, the outputs and constants, and leaves out the
/// inputs that no output depends on. `find` gives the value of a name. `precision`: of OnnxOptions.
void collect(const Graph& graph, FunctionRef<Value(const std::string&)> find, DataType precision,
             const ConstantPool& pool, OnnxModel& model);

}  // namespace heddle::onnx
