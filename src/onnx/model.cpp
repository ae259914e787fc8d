// The arguments of a model, in builds with and without the import of files.
#include "heddle/onnx/import.h"

namespace heddle {

std::vector<Tensor> OnnxModel::args() const {
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  return all;
}

std::vector<NDArray> OnnxModel::arrays(const std::vector<NDArray>& input_arrays,
                                       const std::vector<NDArray>& output_arrays) const {
  std::vector<NDArray> all = input_arrays;
  all.insert(all.end(), output_arrays.begin(), output_arrays.end());
  return all;
}

std::vector<std::string> OnnxModel::arg_names() const {
  std::vector<std::string> all = input_names;
  all.insert(all.end(), output_names.begin(), output_names.end());
  return all;
}

}  // namespace heddle
