#include "fuzz/declarations.h"

#include "dag/declaration/form.h"
#include "heddle/ops/ops.h"
#include "heddle/support/error.h"
#include "support/hashing/hex.h"

namespace heddle::fuzz {

const std::map<std::string, Tensor>& sample_declarations() {
  static const std::map<std::string, Tensor> all = [] {
    const auto input = [](std::vector<Expr> shape, DataType type = f32) {
      return placeholder(shape, type);
    };
    std::map<std::string, Tensor> made;
    made["matmul"] = ops::matmul(input({24, 40}), input({40, 32}));
    made["conv"] = ops::relu(ops::conv2d(input({1, 4, 9, 9}), input({8, 4, 3, 3})));
    made["softmax"] = ops::softmax(input({6, 50}));
    made["bytes"] = ops::cast(
        ops::matmul(ops::cast(input({8, 16}, i8), i32), ops::cast(input({16, 8}, i8), i32)), f32);
    made["argmax"] = ops::argmax(input({5, 17}), 1);
    made["transpose"] = ops::transpose(input({12, 20}), {1, 0});
    return made;
  }();
  return all;
}

std::vector<Tensor> all_args(const ComputeDag& dag) {
  std::vector<Tensor> args = dag.placeholders();
  args.insert(args.end(), dag.outputs().begin(), dag.outputs().end());
  return args;
}

Json with_right_checksums(const Json& json) {
  if (json.is_array()) {
    Json out = Json::array();
    for (const Json& element : json.elements()) out.push_back(with_right_checksums(element));
    return out;
  }
  if (!json.is_object()) return json;
  const Json* declaration = json.find("declaration");
  Json out = Json::object();
  for (const auto& [key, member] : json.members()) {
    const bool covers = key == "checksum" && declaration != nullptr;
    out[key] = covers ? Json(to_hex(dag::declaration_checksum(*declaration)))
                      : with_right_checksums(member);
  }
  return out;
}

}  // namespace heddle::fuzz
