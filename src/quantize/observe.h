// The values of a model's tensors on samples.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "onnx/file/graph.h"

namespace heddle::quantize {

/// A model that is compiled with tensors of its inside as outputs, and runs on samples.
class ObservedModel {
 public:
  /// `names`: the tensors. Throws a User error for samples that do not fit the model.
  ObservedModel(onnx::Model model, const std::vector<std::string>& names,
                const std::map<std::string, NDArray>& samples, int64_t batch);

  /// The calls that it takes to see all samples. Where their number is no multiple of the samples
  /// of a call, the last call sees some of them again.
  int64_t calls() const { return calls_; }
  int64_t samples() const { return samples_; }
  /// The tensors on the samples of a call, in the order of the names. The next call overwrites them.
  const std::vector<NDArray>& call(int64_t number) const;

 private:
  void fix_shapes(onnx::Model& model, int64_t batch);

  std::map<std::string, NDArray> data_;
  std::map<std::string, int64_t> rows_;  ///< of each input, in one call
  int64_t samples_ = 0, calls_ = 0;
  OnnxModel model_;
  NetworkKernel kernel_;
  std::vector<NDArray> outputs_;
};

}  // namespace heddle::quantize
