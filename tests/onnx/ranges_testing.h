// Models whose dimensions have ranges, shared by the tests of imports and networks of them.
#pragma once

#include <string>
#include <vector>

#include "onnx/model_builder.h"

namespace heddle::testing {

inline Message integers(const std::string& name, const std::vector<int64_t>& values) {
  return tensor(name, {static_cast<int64_t>(values.size())}, values);
}

inline std::vector<float> ramp(int64_t count, float scale = 0.1f) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(scale * (static_cast<float>((i * 7 + 3) % 11) - 5));
  return values;
}

/// A layer of attention with two heads over [batch, seq, 8], as exporters write it: shapes are
/// computed by Shape, Gather, Unsqueeze and Concat, positions by Range, and the mask by Less.
inline ModelParts attention_model() {
  ModelParts p;
  p.inputs = {value_info("x", {"batch", "seq", "8"})};
  p.outputs = {value_info("y", {"batch", "seq", "8"}), value_info("pooled", {"batch", "8"})};
  p.initializers = {tensor("wq", {8, 8}, ramp(64)),
                    tensor("wk", {8, 8}, ramp(64, 0.2f)),
                    tensor("wv", {8, 8}, ramp(64, 0.3f)),
                    tensor("table", {40, 8}, ramp(320)),
                    tensor("zero", {}, std::vector<int64_t>{0}),
                    tensor("one", {}, std::vector<int64_t>{1}),
                    integers("zeros", {0}),
                    integers("heads", {2, 4}),
                    integers("width", {8}),
                    tensor("scale", {}, std::vector<float>{0.5f}),
                    tensor("minus", {}, std::vector<float>{-50.f})};
  const auto reshaped = [&](const std::string& from, const std::string& to) {
    p.nodes.push_back(node(to + "_split", "Reshape", {from, "split_shape"}, {to + "_s"}));
    p.nodes.push_back(node(to + "_swap", "Transpose", {to + "_s"}, {to},
                           {attribute("perm", std::vector<int64_t>{0, 2, 1, 3})}));
  };
  p.nodes = {
      node("shape", "Shape", {"x"}, {"x_shape"}),
      node("batch", "Gather", {"x_shape", "zero"}, {"b"}, {attribute("axis", int64_t{0})}),
      node("seq", "Gather", {"x_shape", "one"}, {"s"}, {attribute("axis", int64_t{0})}),
      node("batch1", "Unsqueeze", {"b", "zeros"}, {"b1"}),
      node("seq1", "Unsqueeze", {"s", "zeros"}, {"s1"}),
      node("split", "Concat", {"b1", "s1", "heads"}, {"split_shape"},
           {attribute("axis", int64_t{0})}),
      node("merge", "Concat", {"b1", "s1", "width"}, {"merged_shape"},
           {attribute("axis", int64_t{0})}),
      node("positions", "Range", {"zero", "s", "one"}, {"position"}),
      node("lookup", "Gather", {"table", "position"}, {"embedded"},
           {attribute("axis", int64_t{0})}),
      node("add", "Add", {"x", "embedded"}, {"h"}),
      node("q", "MatMul", {"h", "wq"}, {"hq"}),
      node("k", "MatMul", {"h", "wk"}, {"hk"}),
      node("v", "MatMul", {"h", "wv"}, {"hv"}),
  };
  reshaped("hq", "q4");
  reshaped("hk", "k4");
  reshaped("hv", "v4");
  for (const Message& m :
       {node("kt", "Transpose", {"k4"}, {"k_t"},
             {attribute("perm", std::vector<int64_t>{0, 1, 3, 2})}),
        node("scores", "MatMul", {"q4", "k_t"}, {"raw"}),
        node("scaled", "Mul", {"raw", "scale"}, {"scaled_scores"}),
        node("rows", "Unsqueeze", {"position", "zeros"}, {"row"}),
        node("columns", "Unsqueeze", {"position", "ones"}, {"column"}),
        node("later", "Less", {"column", "row"}, {"hidden"}),
        node("mask", "Where", {"hidden", "minus", "scaled_scores"}, {"masked"}),
        node("weights", "Softmax", {"masked"}, {"p"}, {attribute("axis", int64_t{-1})}),
        node("mix", "MatMul", {"p", "v4"}, {"mixed"}),
        node("back", "Transpose", {"mixed"}, {"swapped"},
             {attribute("perm", std::vector<int64_t>{0, 2, 1, 3})}),
        node("merged", "Reshape", {"swapped", "merged_shape"}, {"together"}),
        node("residual", "Add", {"together", "h"}, {"y"}),
        node("pool", "ReduceMean", {"y", "ones"}, {"pooled"}, {attribute("keepdims", int64_t{0})})})
    p.nodes.push_back(m);
  p.initializers.push_back(integers("ones", {1}));
  return p;
}

/// Convolutions over a batch of images of 6 x 6, then a dense layer.
inline ModelParts images_model() {
  ModelParts p;
  p.inputs = {value_info("x", {"batch", "3", "6", "6"})};
  p.outputs = {value_info("y", {"batch", "5"})};
  p.initializers = {tensor("w", {4, 3, 3, 3}, ramp(108)), tensor("bias", {4}, ramp(4)),
                    tensor("dense", {5, 36}, ramp(180)), tensor("shift", {5}, ramp(5))};
  p.nodes = {
      node("conv", "Conv", {"x", "w", "bias"}, {"c"},
           {attribute("pads", std::vector<int64_t>{1, 1, 1, 1})}),
      node("relu", "Relu", {"c"}, {"r"}),
      node("pool", "MaxPool", {"r"}, {"m"},
           {attribute("kernel_shape", std::vector<int64_t>{2, 2}),
            attribute("strides", std::vector<int64_t>{2, 2})}),
      node("flat", "Flatten", {"m"}, {"f"}),
      node("gemm", "Gemm", {"f", "dense", "shift"}, {"y"}, {attribute("transB", int64_t{1})})};
  return p;
}

}  // namespace heddle::testing
