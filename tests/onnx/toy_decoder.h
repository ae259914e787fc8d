// A language model of a toy language as an ONNX file with past and present, and its weights.
#pragma once

#include <string>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "onnx/model_builder.h"

namespace heddle::testing {

constexpr int64_t kTokens = 7, kWidth = 16, kHeads = 2, kDepth = 8, kLongest = 24;

struct Weight {
  std::string name;
  std::vector<int64_t> shape;
};
inline const std::vector<Weight>& weights_of_model() {
  static const std::vector<Weight> all = {
      {"wte", {kTokens, kWidth}}, {"wpe", {kLongest, kWidth}}, {"wq", {kWidth, kWidth}},
      {"wk", {kWidth, kWidth}},   {"wv", {kWidth, kWidth}},    {"wo", {kWidth, kWidth}},
      {"w1", {kWidth, 32}},       {"w2", {32, kWidth}},        {"out", {kWidth, kTokens}}};
  return all;
}

inline std::vector<NDArray> random_weights(uint64_t seed, double most) {
  std::vector<NDArray> arrays;
  for (const Weight& w : weights_of_model())
    arrays.push_back(NDArray::random(w.shape, f32, seed++, -most, most));
  return arrays;
}

/// What the attention mask of the file is for.
enum class ToyMask {
  Shape,    ///< its shape alone is read
  Values,   ///< keys where it is 0 are hidden, as in exports of batches that are filled up in front
  Lengths,  ///< its sums are the lengths that GroupQueryAttention reads
};

/// Attention of q_flat, k_flat and v_flat as the builder of onnxruntime-genai writes it: mixed_flat.
inline void add_group_query(ModelParts& p) {
  const std::string microsoft = "com.microsoft";
  const std::vector<Message> to_i32{attribute("to", int64_t{6})};
  p.nodes.push_back(node("sum", "ReduceSum", {"attention_mask", "of_rows"}, {"lengths"},
                         {attribute("keepdims", int64_t{0})}));
  p.nodes.push_back(node("last", "Sub", {"lengths", "one"}, {"lasts"}));
  p.nodes.push_back(node("narrow", "Cast", {"lasts"}, {"seqlens_k"}, to_i32));
  p.nodes.push_back(node("shape", "Shape", {"attention_mask"}, {"mask_shape"}));
  p.nodes.push_back(node("rows", "Gather", {"mask_shape", "second"}, {"length"},
                         {attribute("axis", int64_t{0})}));
  p.nodes.push_back(node("total", "Cast", {"length"}, {"total_sequence_length"}, to_i32));
  p.nodes.push_back(node("attend", "GroupQueryAttention",
                         {"q_flat", "k_flat", "v_flat", "past.key", "past.value", "seqlens_k",
                          "total_sequence_length"},
                         {"mixed_flat", "present.key", "present.value"},
                         {attribute("num_heads", kHeads), attribute("kv_num_heads", kHeads)},
                         microsoft));
}

/// The model for tokens behind a past, as exporters write it.
inline std::string decoder_file(const ModelFolder& folder, const std::vector<NDArray>& weights,
                                ToyMask mask = ToyMask::Shape) {
  ModelParts p;
  p.inputs = {value_info("input_ids", {"batch", "seq"}, kInt64),
              value_info("attention_mask", {"batch", "total"}, kInt64),
              value_info("position_ids", {"batch", "seq"}, kInt64),
              value_info("past.key", {"batch", "2", "past", "8"}),
              value_info("past.value", {"batch", "2", "past", "8"})};
  p.outputs = {value_info("logits", {"batch", "seq", "7"}),
               value_info("present.key", {"batch", "2", "total", "8"}),
               value_info("present.value", {"batch", "2", "total", "8"})};
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto* data = weights[i].data<float>();
    p.initializers.push_back(tensor(weights_of_model()[i].name, weights[i].shape(),
                                    std::vector<float>(data, data + weights[i].size())));
  }
  for (Message& m : std::vector<Message>{
           tensor("heads", {4}, std::vector<int64_t>{0, 0, kHeads, kDepth}),
           tensor("joined", {3}, std::vector<int64_t>{0, 0, kWidth}),
           tensor("zero", {}, std::vector<int64_t>{0}), tensor("one", {}, std::vector<int64_t>{1}),
           tensor("second", {}, std::vector<int64_t>{1}),
           tensor("of_positions", {2}, std::vector<int64_t>{1, 3}),
           tensor("of_mask", {2}, std::vector<int64_t>{1, 2}),
           tensor("of_rows", {1}, std::vector<int64_t>{1}),
           tensor("past_rows", {}, std::vector<int64_t>{2}),
           tensor("scale", {}, std::vector<float>{0.35355338f}),
           tensor("minus", {}, std::vector<float>{-1e9f})})
    p.initializers.push_back(m);
  const auto add = [&](const std::string& op, const std::vector<std::string>& in,
                       const std::string& out, const std::vector<Message>& attributes = {}) {
    p.nodes.push_back(node(out + "_node", op, in, {out}, attributes));
  };
  const auto perm = [](const std::vector<int64_t>& order) {
    return std::vector<Message>{attribute("perm", order)};
  };
  const std::vector<Message> first{attribute("axis", int64_t{0})};
  add("Gather", {"wte", "input_ids"}, "words", first);
  add("Gather", {"wpe", "position_ids"}, "places", first);
  add("Add", {"words", "places"}, "h");
  for (const std::string name : {"q", "k", "v"}) {
    add("MatMul", {"h", "w" + name}, name + "_flat");
    add("Reshape", {name + "_flat", "heads"}, name + "_split");
    add("Transpose", {name + "_split"}, name, perm({0, 2, 1, 3}));
  }
  if (mask == ToyMask::Lengths) {
    add_group_query(p);
  } else {
    const std::vector<Message> rows{attribute("axis", int64_t{2})};
    add("Concat", {"past.key", "k"}, "present.key", rows);
    add("Concat", {"past.value", "v"}, "present.value", rows);
    add("Transpose", {"present.key"}, "turned", perm({0, 1, 3, 2}));
    add("MatMul", {"q", "turned"}, "products");
    add("Mul", {"products", "scale"}, "scores");
    add("Shape", {"attention_mask"}, "mask_shape");
    add("Gather", {"mask_shape", "second"}, "length", first);
    add("Range", {"zero", "length", "one"}, "columns");
    if (mask == ToyMask::Values) {
      add("Shape", {"past.key"}, "past_shape");
      add("Gather", {"past_shape", "past_rows"}, "past_length", first);
      add("Range", {"past_length", "length", "one"}, "rows_of_call");
      add("Unsqueeze", {"rows_of_call", "of_rows"}, "lines");
      add("LessOrEqual", {"columns", "lines"}, "before");
      add("Cast", {"attention_mask"}, "shown", {attribute("to", int64_t{kBool})});
      add("Unsqueeze", {"shown", "of_mask"}, "shown_keys");
      add("And", {"before", "shown_keys"}, "seen");
    } else {
      add("Unsqueeze", {"position_ids", "of_positions"}, "lines");
      add("LessOrEqual", {"columns", "lines"}, "seen");
    }
    add("Where", {"seen", "scores", "minus"}, "masked");
    add("Softmax", {"masked"}, "shares", {attribute("axis", int64_t{-1})});
    add("MatMul", {"shares", "present.value"}, "mixed");
    add("Transpose", {"mixed"}, "mixed_rows", perm({0, 2, 1, 3}));
    add("Reshape", {"mixed_rows", "joined"}, "mixed_flat");
  }
  add("MatMul", {"mixed_flat", "wo"}, "attended");
  add("Add", {"h", "attended"}, "x");
  add("MatMul", {"x", "w1"}, "inner");
  add("Relu", {"inner"}, "active");
  add("MatMul", {"active", "w2"}, "outer");
  add("Add", {"x", "outer"}, "y");
  add("MatMul", {"y", "out"}, "logits");
  return folder.write("decoder.onnx", model_bytes(p));
}

}  // namespace heddle::testing
