// The file of a quantised model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "onnx/file/graph.h"
#include "quantize/decide.h"
#include "quantize/ranges.h"

namespace heddle::quantize {

struct WrittenModel {
  std::string bytes;
  /// For each tensor of the decision the name of what its bytes stand for, in f32.
  std::map<std::string, std::string> stands_for;
  int64_t weight_bytes = 0, weight_bytes_before = 0;
};

/// `file` is the content of the model's file, and `scales` has one for each tensor of the decision.
WrittenModel write_model(std::string_view file, const onnx::Model& model, const Decision& decision,
                         const std::map<std::string, Scale>& scales,
                         const QuantizeOptions& options);

}  // namespace heddle::quantize
