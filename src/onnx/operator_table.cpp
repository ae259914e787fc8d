// The table of operators, and which of them can be declared.
#include <map>
#include <string>

#include "heddle/onnx/import.h"
#include "onnx/node_scope.h"
#include "onnx/operator_names.h"

namespace heddle::onnx {
namespace {

const std::map<std::string, Declare>& table() {
  static const std::map<std::string, Declare> all = [] {
    std::map<std::string, Declare> entries;
    for (const auto family :
         {unary_operators, binary_operators, constant_operators, shape_operators, part_operators,
          convolution_operators, pool_operators, product_operators, normalization_operators,
          reduction_operators, lookup_operators, scatter_operators, recurrent_operators,
          quantize_operators, integer_product_operators}) {
      for (const OperatorEntry& entry : family()) entries.emplace(entry.name, entry.declare);
    }
    return entries;
  }();
  return all;
}

}  // namespace

Declare find_operator(const std::string& name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace heddle::onnx

namespace heddle {

std::vector<OnnxOperator> onnx_operators() {
  std::vector<OnnxOperator> result;
  for (const char* name : onnx::kOperatorNames)
    result.push_back({name, onnx::find_operator(name) != nullptr});
  return result;
}

}  // namespace heddle
