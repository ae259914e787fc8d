// The file of an encoder of a transformer as exporters write it, in f32 or with pairs of QuantizeLinear and
// DequantizeLinear (QDQ).
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "onnx/model_builder.h"

namespace heddle::testing {

inline constexpr int64_t kBatch = 2, kSequence = 12, kTokens = 50, kWidth = 32, kHeads = 4,
                         kInner = 64, kLayers = 2, kProducts = 6 * kLayers;
inline constexpr int kInt8 = 3, kUint8 = 2;

/// Writes the file. `bytes`: products have QDQ in front of both operands.
class Encoder {
 public:
  explicit Encoder(bool bytes) : bytes_(bytes) {}

  ModelParts run() {
    p_.inputs = {value_info("ids", {"batch", "12"}, kInt64),
                 value_info("mask", {"batch", "1", "1", "12"})};
    p_.outputs = {value_info("y", {"batch", "12", "32"})};
    weights("words", {kTokens, kWidth}, 1);
    weights("places", {kSequence, kWidth}, 1);
    ints("heads", {0, 0, kHeads, kWidth / kHeads});
    ints("joined", {0, 0, kWidth});
    number("scale", 1 / std::sqrt(static_cast<float>(kWidth) / kHeads));
    number("root", std::sqrt(2.F));
    number("one", 1);
    number("half", 0.5F);
    number("step", 8.F / 255);
    p_.initializers.push_back(tensor_header("point", kUint8, {}).text(9, std::string(1, '\x80')));
    add("Gather", {"words", "ids"}, "found");
    add("Add", {"found", "places"}, "sum");
    std::string x = norm("sum", "first");
    for (int64_t l = 0; l < kLayers; ++l) x = layer(x, "l" + std::to_string(l));
    add("Identity", {x}, "y");
    return std::move(p_);
  }

 private:
  void add(const std::string& op, const std::vector<std::string>& in, const std::string& out,
           const std::vector<Message>& attributes = {}) {
    p_.nodes.push_back(node(out + ".node", op, in, {out}, attributes));
  }
  void weights(const std::string& name, const std::vector<int64_t>& shape, double most) {
    const NDArray a = NDArray::random(shape, f32, ++seed_, -most, most);
    p_.initializers.push_back(
        tensor(name, shape, std::vector<float>(a.data<float>(), a.data<float>() + a.size())));
  }
  void ints(const std::string& name, const std::vector<int64_t>& values) {
    p_.initializers.push_back(tensor(name, {std::ssize(values)}, values));
  }
  void number(const std::string& name, float value) {
    p_.initializers.push_back(tensor(name, {}, std::vector<float>{value}));
  }

  std::string norm(const std::string& x, const std::string& name) {
    weights(name + ".gain", {kWidth}, 1);
    weights(name + ".shift", {kWidth}, 0.2);
    add("LayerNormalization", {x, name + ".gain", name + ".shift"}, name,
        {attribute("axis", int64_t{-1}), attribute("epsilon", 1e-5F)});
    return name;
  }

  /// The weights of a product, of f32 or of bytes with a scale for each column.
  std::string factor(const std::string& name, int64_t rows, int64_t columns) {
    const double most = 1 / std::sqrt(static_cast<double>(rows));
    if (!bytes_) {
      weights(name + ".w", {rows, columns}, most);
      return name + ".w";
    }
    const NDArray q = NDArray::random({rows, columns}, i8, ++seed_, -127, 127);
    const auto* data = q.data<int8_t>();
    p_.initializers.push_back(tensor_header(name + ".q", kInt8, {rows, columns})
                                  .text(9, raw(std::vector<int8_t>(data, data + q.size()))));
    std::vector<float> scales;
    for (int64_t c = 0; c < columns; ++c)
      scales.push_back(static_cast<float>(most / 127 * (1 + 0.1 * static_cast<double>(c % 3))));
    p_.initializers.push_back(tensor(name + ".s", {columns}, scales));
    add("DequantizeLinear", {name + ".q", name + ".s"}, name + ".w",
        {attribute("axis", int64_t{1})});
    return name + ".w";
  }

  std::string dense(const std::string& x, const std::string& name, int64_t rows, int64_t columns) {
    const std::string w = factor(name, rows, columns);
    std::string from = x;
    if (bytes_) {
      add("QuantizeLinear", {x, "step", "point"}, name + ".xq");
      add("DequantizeLinear", {name + ".xq", "step", "point"}, name + ".x");
      from = name + ".x";
    }
    weights(name + ".b", {columns}, 0.1);
    add("MatMul", {from, w}, name + ".product");
    add("Add", {name + ".product", name + ".b"}, name);
    return name;
  }

  std::string layer(const std::string& x, const std::string& n) {
    for (const std::string part : {".q", ".k", ".v"}) {
      const std::string flat = dense(x, n + part, kWidth, kWidth);
      add("Reshape", {flat, "heads"}, flat + ".split");
      add("Transpose", {flat + ".split"}, flat + ".heads",
          {attribute("perm", part == ".k" ? std::vector<int64_t>{0, 2, 3, 1}
                                          : std::vector<int64_t>{0, 2, 1, 3})});
    }
    add("MatMul", {n + ".q.heads", n + ".k.heads"}, n + ".scores");
    add("Mul", {n + ".scores", "scale"}, n + ".scaled");
    add("Add", {n + ".scaled", "mask"}, n + ".masked");
    add("Softmax", {n + ".masked"}, n + ".shares", {attribute("axis", int64_t{-1})});
    add("MatMul", {n + ".shares", n + ".v.heads"}, n + ".mixed");
    add("Transpose", {n + ".mixed"}, n + ".rows",
        {attribute("perm", std::vector<int64_t>{0, 2, 1, 3})});
    add("Reshape", {n + ".rows", "joined"}, n + ".flat");
    add("Add", {dense(n + ".flat", n + ".o", kWidth, kWidth), x}, n + ".attended");
    const std::string h = norm(n + ".attended", n + ".norm"),
                      inner = dense(h, n + ".up", kWidth, kInner);
    add("Div", {inner, "root"}, n + ".over");
    add("Erf", {n + ".over"}, n + ".erf");
    add("Add", {n + ".erf", "one"}, n + ".more");
    add("Mul", {inner, n + ".more"}, n + ".double");
    add("Mul", {n + ".double", "half"}, n + ".gelu");
    add("Add", {dense(n + ".gelu", n + ".down", kInner, kWidth), h}, n + ".sum");
    return norm(n + ".sum", n + ".out");
  }

  ModelParts p_;
  const bool bytes_;
  uint64_t seed_ = 10;
};

/// Random tokens, and a mask that hides some of the last ones.
inline std::map<std::string, NDArray> samples(int64_t count, uint64_t seed) {
  NDArray mask = NDArray::zeros({count, 1, 1, kSequence}, f32);
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t t = kSequence - b % 4; t < kSequence; ++t) mask.set(b * kSequence + t, -1e4);
  }
  return {{"ids", NDArray::random({count, kSequence}, i64, seed, 0, kTokens - 1)}, {"mask", mask}};
}

}  // namespace heddle::testing
