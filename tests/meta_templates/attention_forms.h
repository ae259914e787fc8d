// Declarations of attention for tests: heads of any size, masks, grouped heads, layouts.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "heddle/ops/ops.h"
#include "selftest/pair.h"

namespace heddle::testing {

inline Target h200() { return Target::parse("cuda -gpu=h200"); }

// The static choice of the graph as declared.
inline AutoSchedulerOptions as_declared() {
  AutoSchedulerOptions o;
  o.use_records = false;
  o.use_alternatives = false;
  return o;
}

// Gives a knob a value. Of several groups each has its name before those of its knobs. Returns
// whether there is such a knob.
inline bool set_knob(const Template& t, Config* c, const std::string& knob, int64_t value) {
  bool found = false;
  for (size_t i = 0; i < t.knobs().size(); ++i) {
    const std::string& name = t.knobs()[i].name;
    if (name != knob && !name.ends_with("." + knob)) continue;
    c->values[i] = value;
    found = true;
  }
  return found;
}

/// CausalFromFirst: a row attends to the keys up to its own number, however many more there are.
enum class Mask { None, Causal, Added, Bool, CausalFromFirst };

struct Form {
  DataType type = f16;
  int64_t batch = 2, groups = 1, rows = 40, keys = 56, depth = 32, cols = 32;
  Mask mask = Mask::None;
  bool interleaved = false;     ///< operands are (rows, heads, size of a head)
  bool keys_turned = false;     ///< keys are stored (depth, keys)
  bool divided_before = false;  ///< softmax(..) and then a product
  double scale = 0;
};

inline Tensor causal(int64_t rows, int64_t keys, int64_t before) {
  return compute(
      {Expr(rows), Expr(keys)},
      [&](const std::vector<Axis>& i) -> Expr { return i[1] <= i[0] + Expr(before); }, "causal");
}

inline selftest::RandomProgram attention(const Form& f) {
  selftest::RandomProgram p;
  const auto input = [&](const Shape& shape, const char* name) {
    p.inputs.push_back(placeholder(shape, f.type, name));
    return p.inputs.back();
  };
  const auto operand = [&](int64_t groups, int64_t rows, int64_t cols, const char* name) {
    if (f.interleaved) return ops::transpose(input({rows, f.batch, cols}, name), {1, 0, 2});
    if (f.groups == 1) return input({f.batch, rows, cols}, name);
    return input({f.batch, groups, rows, cols}, name);
  };
  const Tensor q = operand(f.groups, f.rows, f.depth, "q");
  const Tensor k = f.keys_turned ? ops::transpose(input({f.batch, f.depth, f.keys}, "k"), {0, 2, 1})
                                 : operand(1, f.keys, f.depth, "k");
  const Tensor v = operand(1, f.keys, f.cols, "v");
  Tensor mask;
  if (f.mask == Mask::Causal) mask = causal(f.rows, f.keys, std::max<int64_t>(f.keys - f.rows, 0));
  if (f.mask == Mask::CausalFromFirst) mask = causal(f.rows, f.keys, 0);
  if (f.mask == Mask::Added) mask = input({f.rows, f.keys}, "mask");
  if (f.mask == Mask::Bool) {
    const Tensor keep = input({f.rows, f.keys}, "keep");
    mask = compute(keep.shape(), [&](const std::vector<Axis>& i) -> Expr {
      return keep(i) > Expr(-0.5f) || i[1] == Expr(0);
    });
  }
  if (f.divided_before) {
    const Tensor scores = ops::matmul(q, k, false, true, {.accumulate = f32, .output = f32});
    const Tensor weights = ops::softmax(scores);
    const Tensor narrow = compute(
        weights.shape(), [&](const std::vector<Axis>& i) { return cast(f.type, weights(i)); });
    p.outputs = {ops::matmul(narrow, v)};
  } else {
    p.outputs = {ops::scaled_dot_product_attention(q, k, v, mask, f.scale)};
  }
  p.reduce_length = f.depth + f.keys;
  p.text = to_string(f.type) + " " + std::to_string(f.batch) + "x" + std::to_string(f.groups) +
           " rows " + std::to_string(f.rows) + " keys " + std::to_string(f.keys) + " depth " +
           std::to_string(f.depth) + " cols " + std::to_string(f.cols) + " mask " +
           std::to_string(static_cast<int>(f.mask));
  return p;
}

}  // namespace heddle::testing
