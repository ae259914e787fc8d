// ONNX files as declarations.
//
//   OnnxModel model = import_onnx("resnet50.onnx", {.dims = {{"batch", 1}}});
//   Network net(model.outputs);
//   NetworkKernel run = net.build(model.args());
//   run.call(model.arrays({image}, {scores}));
//
// Opsets 11 to 21 are known; older operators work where their meaning is the same. Shapes are fixed
// at import, and what the file calculates of shapes alone is calculated then. Weights stay where
// they are: in the file, which is mapped into memory, wherever they are aligned to their type.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

struct OnnxOptions {
  /// Extents of dimensions that the file names ("batch"). Those of the file that have neither name
  /// nor extent are called "INPUT:DIMENSION", such as "x:0".
  std::map<std::string, int64_t> dims = {};
  /// f32, or what takes its place between inputs and outputs, which stay f32: f16 or bf16. Sums,
  /// norms and softmax calculate in f32 still; constants beyond the type's range become its
  /// largest.
  DataType precision = f32;
};

/// A model as a declaration.
struct OnnxModel {
  std::string path;
  /// In the file's order; inputs that no output depends on are left out.
  std::vector<Tensor> inputs, outputs;
  std::vector<std::string> input_names, output_names;
  /// The initialisers that the outputs depend on, and their elements.
  std::vector<Tensor> constants;
  std::vector<NDArray> constant_arrays;

  /// Inputs, constants, outputs: the order for Network::build.
  std::vector<Tensor> args() const;
  /// The arrays of a call in the same order.
  std::vector<NDArray> arrays(const std::vector<NDArray>& inputs,
                              const std::vector<NDArray>& outputs) const;
};

/// Reads a model. What is wrong with the file, its data or a node is a User error that names the
/// file and the node; operators that are not supported are named all at once. External data must
/// lie in the folder of the model or below.
OnnxModel import_onnx(const std::string& path, const OnnxOptions& options = {},
                      Where where = Where::current());

/// Whether this build can read ONNX files (it was built with protobuf).
bool onnx_available();

/// An operator of ONNX's default domain.
struct OnnxOperator {
  std::string name;
  bool supported = false;
};
/// All operators of opset 21, by name.
std::vector<OnnxOperator> onnx_operators();

}  // namespace heddle
