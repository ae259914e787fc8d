// The table of operators, and which of them can be declared.
#include <map>
#include <string>

#include "heddle/onnx/import.h"
#include "onnx/node_scope.h"
#include "onnx/operator_names.h"

namespace heddle::onnx {
namespace {

constexpr const char* kMicrosoft = "com.microsoft";
using Table = OperatorTable;

void add_families(Table& table, const std::string& domain,
                  std::initializer_list<std::vector<OperatorEntry> (*)()> families) {
  for (const auto family : families) {
    for (const OperatorEntry& entry : family())
      table.emplace(std::pair{domain, std::string(entry.name)}, entry);
  }
}

const Table& table() {
  static const Table all = [] {
    Table entries;
    add_families(entries, "", {unary_operators,     binary_operators,   constant_operators,
                               shape_operators,     part_operators,     convolution_operators,
                               pool_operators,      product_operators,  normalization_operators,
                               reduction_operators, lookup_operators,   scatter_operators,
                               recurrent_operators, quantize_operators, integer_product_operators,
                               control_operators,   sequence_operators, attention_operators,
                               bounded_operators,   fold_operators,     linear_attention_operators,
                               loss_operators,      ngram_operators,    random_operators,
                               resize_operators,    sample_operators,   signal_operators});
    add_families(
        entries, kMicrosoft,
        {microsoft_attention_operators, microsoft_integer_product_operators,
         microsoft_norm_operators, microsoft_product_operators, microsoft_quantise_operators,
         microsoft_quantised_operators, microsoft_recurrent_operators});
    return entries;
  }();
  return all;
}

}  // namespace

const OperatorTable& operator_table() { return table(); }

const OperatorEntry* find_operator(const std::string& domain, const std::string& name) {
  const auto found = table().find({domain, name});
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace heddle::onnx

namespace heddle {

std::vector<OnnxOperator> onnx_operators() {
  std::vector<OnnxOperator> result;
  for (const char* name : onnx::kOperatorNames)
    result.push_back({name, onnx::find_operator("", name) != nullptr});
  for (const auto& [key, entry] : onnx::operator_table()) {
    if (!key.first.empty()) result.push_back({key.second, true, key.first});
  }
  return result;
}

}  // namespace heddle
