// The network of a GGUF file, from its metadata and the names of its tensors
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). It is declared at some sizes, from which one
// declaration over them is made, with past and present keys and values, which become states.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "generate/gguf_blocks.h"
#include "generate/gguf_facts.h"
#include "heddle/dag/generalize.h"
#include "heddle/dsl/arrays.h"
#include "heddle/ops/ops.h"
#include "heddle/support/error.h"
#include "onnx/file/graph.h"

namespace heddle {
namespace {

struct Layer {
  Tensor norm, q, k, v, out, q_bias, k_bias, v_bias, q_norm, k_norm, inner_norm, gate, up, down;
};

/// A declaration at some sizes, and the inputs that it has over them.
struct Declared {
  OnnxModel model;
  std::vector<Tensor> inputs, outputs;
};

using generate::GgufFacts;

class Maker {
 public:
  Maker(const GgufFile& file, const DecoderSizes& sizes)
      : file_(file), facts_(file), sizes_(sizes) {
    if (sizes.rows < 1 || sizes.batch < 1 || sizes.capacity < sizes.rows + 2)
      facts_.fail("a capacity of " + std::to_string(sizes.capacity) + " for calls of " +
                  std::to_string(sizes.rows) + ", batch " + std::to_string(sizes.batch));
    if (facts_.context > 0 && sizes.capacity > facts_.context)
      facts_.fail("a capacity of " + std::to_string(sizes.capacity) +
                      " is more than its context_length, " + std::to_string(facts_.context),
                  "ask for a smaller capacity");
    if (sizes.rows > 1) rows_.emplace(dim("rows", 1, sizes.rows));
    read_weights();
    make_angles();
    check_all_are_used();
  }

  OnnxModel run() {
    const Dim past = dim("past", 1, sizes_.capacity - sizes_.rows);
    std::optional<Declared> largest;
    const Generalized made = generalize(past, [&](int64_t n) {
      Declared here = over_rows(n);
      std::vector<Tensor> outputs = here.outputs;
      if (!largest) largest = std::move(here);
      return outputs;
    });
    OnnxModel model = std::move(largest->model);
    model.inputs = Instance{{}, made.tensors}.of(largest->inputs);
    model.outputs = made.outputs;
    model.path = file_.path();
    model.dims.insert(model.dims.begin(), past);
    OnnxOptions options;
    options.states = true;
    options.sums["total"] = {"past", "rows"};
    options.each_sequence = onnx::with_own_lengths(sizes_);
    options.blocks = sizes_.blocks;
    return onnx::with_states(std::move(model), options);
  }

 private:
  Declared over_rows(int64_t past) {
    if (!rows_) {
      OnnxModel model = declare(past, 1);
      return {model, model.inputs, model.outputs};
    }
    std::optional<OnnxModel> largest;
    const Generalized made = generalize(*rows_, [&](int64_t n) {
      OnnxModel here = declare(past, n);
      std::vector<Tensor> outputs = here.outputs;
      if (!largest) largest = std::move(here);
      return outputs;
    });
    largest->dims = {*rows_};
    std::vector<Tensor> inputs = Instance{{}, made.tensors}.of(largest->inputs);
    return {std::move(*largest), std::move(inputs), made.outputs};
  }

  const GgufTensor& tensor(const std::string& name, const Extents& shape) {
    const GgufTensor& t = file_.tensor(name);
    used_.insert(name);
    if (t.shape != shape)
      facts_.fail("tensor '" + name + "' has the shape " + text_of(t.shape) + " and not " +
                  text_of(shape));
    return t;
  }
  static std::string text_of(const Extents& shape) {
    std::string text;
    for (const int64_t n : shape) text += (text.empty() ? "(" : ", ") + std::to_string(n);
    return text + ")";
  }
  bool has(const std::string& name) const {
    return std::ranges::any_of(file_.tensors(),
                               [&](const GgufTensor& t) { return t.name == name; });
  }

  /// A tensor as f32.
  Tensor weights(const std::string& name, const Extents& shape) {
    tensor(name, shape);
    const Tensor w = file_.weights(name);
    return w.dtype() == f32 ? w : ops::cast(w, f32, Where{});
  }
  Tensor optional(const std::string& name, const Extents& shape) {
    return has(name) ? weights(name, shape) : Tensor();
  }

  /// A layer with a tensor that has no place here, such as a bias of its output, is another network. Frequencies
  /// of rotations, which old files have, follow from the metadata.
  void check_all_are_used() const {
    for (const GgufTensor& t : file_.tensors()) {
      if (used_.contains(t.name) || t.name.ends_with(".attn_rot_embd.weight")) continue;
      facts_.fail("it has a tensor '" + t.name + "', which no layer of " + facts_.family + " has",
                  "files of other networks are read as ONNX");
    }
  }

  void read_weights() {
    const GgufFacts& f = facts_;
    const GgufTensor& table = file_.tensor("token_embd.weight");
    vocabulary_ = table.shape.front();
    tensor(table.name, {vocabulary_, f.hidden});
    embedding_ = generate::elements_of(table, file_.bytes_of(table));
    norm_ = weights("output_norm.weight", {f.hidden});
    if (has("output.weight")) {
      head_ = weights("output.weight", {vocabulary_, f.hidden});
    } else {
      head_ = compute(
          {vocabulary_, f.hidden}, [&](Axis r, Axis k) { return embedding_(r, k); }, table.name,
          "dequantize", Where{});
    }
    const int64_t all = f.heads * f.size, shared = f.groups * f.size;
    for (int64_t l = 0; l < f.layers; ++l) {
      const std::string at = "blk." + std::to_string(l) + ".";
      const std::string gate = at + "ffn_gate.weight";
      const int64_t inner = file_.tensor(gate).shape.front();
      layers_.push_back({.norm = weights(at + "attn_norm.weight", {f.hidden}),
                         .q = weights(at + "attn_q.weight", {all, f.hidden}),
                         .k = weights(at + "attn_k.weight", {shared, f.hidden}),
                         .v = weights(at + "attn_v.weight", {shared, f.hidden}),
                         .out = weights(at + "attn_output.weight", {f.hidden, all}),
                         .q_bias = optional(at + "attn_q.bias", {all}),
                         .k_bias = optional(at + "attn_k.bias", {shared}),
                         .v_bias = optional(at + "attn_v.bias", {shared}),
                         .q_norm = optional(at + "attn_q_norm.weight", {f.size}),
                         .k_norm = optional(at + "attn_k_norm.weight", {f.size}),
                         .inner_norm = weights(at + "ffn_norm.weight", {f.hidden}),
                         .gate = weights(gate, {inner, f.hidden}),
                         .up = weights(at + "ffn_up.weight", {inner, f.hidden}),
                         .down = weights(at + "ffn_down.weight", {f.hidden, inner})});
    }
  }

  /// Cosines and sines of each position. The factors of rope_freqs divide the frequencies.
  void make_angles() {
    const int64_t half = facts_.turned / 2;
    std::vector<float> factors(static_cast<size_t>(half), 1.0F);
    if (has("rope_freqs.weight")) {
      const GgufTensor& t = tensor("rope_freqs.weight", {half});
      if (t.type != GgufType::F32) facts_.fail("its rope_freqs.weight is " + to_string(t.type));
      const std::string bytes = file_.bytes_of(t);
      std::memcpy(factors.data(), bytes.data(), bytes.size());
      if (!std::ranges::all_of(factors, [](float f) { return std::isfinite(f) && f > 0; }))
        facts_.fail("a factor of its rope_freqs.weight is not positive");
    }
    NDArray cosines = NDArray::empty({sizes_.capacity, half}, f32), sines = zeros_like(cosines);
    for (int64_t p = 0; p < sizes_.capacity; ++p) {
      for (int64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(
            facts_.base, -2.0 * static_cast<double>(i) / static_cast<double>(facts_.turned));
        const double angle = static_cast<double>(p) * frequency / facts_.stretch /
                             static_cast<double>(factors[static_cast<size_t>(i)]);
        cosines.data<float>()[p * half + i] = static_cast<float>(std::cos(angle));
        sines.data<float>()[p * half + i] = static_cast<float>(std::sin(angle));
      }
    }
    cosines_ = constant(cosines, "cosines");
    sines_ = constant(sines, "sines");
  }

  OnnxModel declare(int64_t past, int64_t n) const {
    const int64_t batch = sizes_.batch, total = past + n;
    OnnxModel m;
    const auto input = [&](const std::string& name, const Shape& shape, DataType type) {
      m.inputs.push_back(placeholder(shape, type, name, Where{}));
      m.input_names.push_back(name);
      return m.inputs.back();
    };
    const auto output = [&](const std::string& name, const Tensor& t) {
      m.outputs.push_back(t);
      m.output_names.push_back(name);
    };
    const Tensor ids = input("input_ids", {batch, n}, i64),
                 there = input("attention_mask", {batch, total}, i64),
                 positions = input("position_ids", {batch, n}, i64);
    const Tensor seen = compute(
        {batch, 1, n, total},
        [&](Axis b, Axis, Axis i, Axis t) {
          return heddle::logical_and(t <= i + past, there(b, t) > make_const(i64, 0));
        },
        "seen", "attention_mask", Where{});
    const Tensor cosines = ops::gather(cosines_, positions, 0, Where{}),
                 sines = ops::gather(sines_, positions, 0, Where{});
    Tensor x = compute(
        {batch, n, facts_.hidden},
        [&](Axis b, Axis i, Axis k) {
          const Expr row = heddle::min(heddle::max(ids(b, i), Expr(0)), Expr(vocabulary_ - 1));
          return embedding_(row, k);
        },
        "embedding", "gather", Where{});
    std::vector<Tensor> presents;
    for (size_t l = 0; l < layers_.size(); ++l) {
      const std::string name = "past." + std::to_string(l);
      const Shape cache{batch, facts_.groups, past, facts_.size};
      const Tensor keys = input(name + ".key", cache, f32),
                   values = input(name + ".value", cache, f32);
      x = layer(layers_[l], x, keys, values, seen, cosines, sines, presents);
    }
    const Tensor h = ops::rms_norm(x, norm_, -1, facts_.epsilon, Where{});
    output("logits", ops::matmul(h, head_, false, true, {}, Where{}));
    for (size_t i = 0; i < presents.size(); ++i)
      output("present." + std::to_string(i), presents[i]);
    return m;
  }

  /// A product in heads: (batch, heads, n, size).
  Tensor heads_of(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& norm,
                  int64_t heads) const {
    Tensor y = ops::matmul(x, w, false, true, {}, Where{});
    if (bias) y = ops::add(y, bias, Where{});
    y = ops::reshape(y, {x.extent(0), x.extent(1), heads, facts_.size}, Where{});
    if (norm) y = ops::rms_norm(y, norm, -1, facts_.epsilon, Where{});
    return ops::transpose(y, {0, 2, 1, 3}, Where{});
  }

  Tensor layer(const Layer& w, const Tensor& x, const Tensor& past_keys, const Tensor& past_values,
               const Tensor& seen, const Tensor& cosines, const Tensor& sines,
               std::vector<Tensor>& presents) const {
    const auto rotated = [&](const Tensor& t) {
      return ops::rotary_embedding(t, cosines, sines, facts_.interleaved, Where{});
    };
    Tensor h = ops::rms_norm(x, w.norm, -1, facts_.epsilon, Where{});
    const Tensor q = rotated(heads_of(h, w.q, w.q_bias, w.q_norm, facts_.heads));
    const Tensor k = rotated(heads_of(h, w.k, w.k_bias, w.k_norm, facts_.groups));
    const Tensor v = heads_of(h, w.v, w.v_bias, {}, facts_.groups);
    const Tensor keys = ops::concat({past_keys, k}, 2, Where{}),
                 values = ops::concat({past_values, v}, 2, Where{});
    presents.insert(presents.end(), {keys, values});
    Tensor y = ops::attention(q, keys, values, {.mask = seen}, Where{}).result;
    y = ops::transpose(y, {0, 2, 1, 3}, Where{});
    y = ops::reshape(y, {x.extent(0), x.extent(1), facts_.heads * facts_.size}, Where{});
    const Tensor middle = ops::add(x, ops::matmul(y, w.out, false, true, {}, Where{}), Where{});
    h = ops::rms_norm(middle, w.inner_norm, -1, facts_.epsilon, Where{});
    const Tensor gate = ops::silu(ops::matmul(h, w.gate, false, true, {}, Where{}), Where{}),
                 up = ops::matmul(h, w.up, false, true, {}, Where{});
    const Tensor inner = ops::mul(gate, up, Where{});
    return ops::add(middle, ops::matmul(inner, w.down, false, true, {}, Where{}), Where{});
  }

  const GgufFile& file_;
  const GgufFacts facts_;
  const DecoderSizes sizes_;
  std::optional<Dim> rows_;  ///< where calls have tokens of their own number
  int64_t vocabulary_ = 0;
  generate::Elements embedding_;
  Tensor norm_, head_, cosines_, sines_;
  std::vector<Layer> layers_;
  std::set<std::string> used_;  ///< the names of the tensors that are read
};

}  // namespace

OnnxModel gguf_decoder(const GgufFile& file, const DecoderSizes& sizes) {
  return Maker(file, sizes).run();
}

}  // namespace heddle
