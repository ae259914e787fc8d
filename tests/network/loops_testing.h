// Recurrent layers that are drawn: unrolled, and as a loop of the same arguments.
#pragma once

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "heddle/codegen/interpreter.h"
#include "heddle/dsl/arrays.h"
#include "heddle/network/network.h"
#include "heddle/ops/ops.h"
#include "heddle/support/rng.h"

namespace heddle::testing {

struct DrawnLayer {
  std::string text;
  std::vector<Tensor> inputs;    ///< those that calls give
  std::vector<Tensor> unrolled;  ///< its outputs
  std::vector<Tensor> looped;    ///< the same
  Updates updates;               ///< of `looped`
};

/// A layer of at most `steps` steps, in one or both directions.
inline DrawnLayer draw_layer(Rng& rng, int64_t steps, const std::string& prefix = "") {
  enum Kind { kLstm, kGru, kRnn };
  const auto kind = static_cast<Kind>(rng.uniform_int(0, 2));
  const int64_t gates = kind == kLstm ? 4 : kind == kGru ? 3 : 1;
  const auto draw = [&](int64_t most) { return rng.uniform_int(1, most); };
  const int64_t t = draw(steps), n = draw(4), h = draw(24), i = draw(12);
  const bool bias = rng.chance(0.5), state = rng.chance(0.5), lengths = rng.chance(0.3);
  const bool peepholes = kind == kLstm && rng.chance(0.3), both = rng.chance(0.5);
  ops::RecurrentAttributes attributes;
  attributes.linear_before_reset = rng.chance(0.5);
  attributes.input_forget = rng.chance(0.25);
  attributes.clip = rng.chance(0.25) ? 0.3 : 0;
  const bool reverse = rng.chance(0.5), cell_is_read = rng.chance(0.5);
  DrawnLayer out;
  std::ostringstream text;
  text << (kind == kLstm  ? "lstm"
           : kind == kGru ? "gru"
                          : "rnn")
       << " T=" << t << " N=" << n << " H=" << h << " I=" << i << (bias ? " bias" : "")
       << (state ? " state" : "") << (lengths ? " lengths" : "") << (peepholes ? " peepholes" : "")
       << (both      ? " both"
           : reverse ? " reverse"
                     : "")
       << (attributes.linear_before_reset ? " linear_before_reset" : "")
       << (attributes.input_forget ? " input_forget" : "") << " clip=" << attributes.clip;
  out.text = text.str();
  const auto input = [&](const Shape& shape, const char* name) {
    out.inputs.push_back(placeholder(shape, f32, prefix + name));
    return out.inputs.back();
  };
  const Tensor x = input({t, n, i}, "x");
  std::vector<ops::RecurrentWeights> weights;
  for (int d = 0; d < (both ? 2 : 1); ++d) {
    ops::RecurrentWeights w{constant_placeholder({gates * h, i}, f32, "w"),
                            constant_placeholder({gates * h, h}, f32, "r")};
    if (bias) w.bias = constant_placeholder({2 * gates * h}, f32, "b");
    if (state) w.state = input({n, h}, "state");
    if (state && kind == kLstm) w.cell = input({n, h}, "cell");
    if (peepholes) w.peepholes = constant_placeholder({3 * h}, f32, "p");
    weights.push_back(w);
  }
  if (lengths) {
    // Lengths from 0 to beyond the steps, of numbers between -1 and 1.
    const Tensor of = input({n}, "lengths");
    const Tensor whole = compute(
        {n}, [&](Axis b) { return cast(i32, abs(of(b)) * make_const(f32, double(t) + 1)); }, "len");
    for (ops::RecurrentWeights& w : weights) w.lengths = whole;
  }
  Recurrence loop("layer", Expr(t));
  for (const bool in_loop : {false, true}) {
    std::vector<Tensor>& outputs = in_loop ? out.looped : out.unrolled;
    for (size_t d = 0; d < weights.size(); ++d) {
      attributes.reverse = both ? d == 1 : reverse;
      attributes.loop = in_loop ? &loop : nullptr;
      const auto layer = kind == kLstm ? ops::lstm : kind == kGru ? ops::gru : ops::rnn;
      const ops::RecurrentResult r = layer(x, weights[d], attributes, Where::current());
      outputs.push_back(ops::relu(r.all));
      outputs.push_back(ops::tanh(r.state));
      if (kind == kLstm && cell_is_read) outputs.push_back(ops::tanh(r.cell));
    }
  }
  out.updates = Updates({}, {loop.repeat()});
  return out;
}

/// The values of all inputs, constants among them, by the placeholder.
struct Values {
  std::vector<TensorValue> list;
  explicit Values(const std::vector<Tensor>& placeholders, uint64_t seed) {
    for (const Tensor& t : placeholders)
      list.push_back({t, NDArray::random(t.extents(), t.dtype(), seed++)});
  }
  NDArray of(const Tensor& t) const {
    for (const TensorValue& v : list) {
      if (v.tensor.same_as(t)) return v.value;
    }
    return NDArray::full(t.extents(), t.dtype(), 77);
  }
};

/// Inputs and outputs of the network of loops.
inline std::vector<Tensor> args_of_loops(const DrawnLayer& layer) {
  std::vector<Tensor> args;
  for (const Tensor& t : ComputeDag(layer.unrolled).placeholders()) args.push_back(t);
  args.insert(args.end(), layer.looped.begin(), layer.looped.end());
  return args;
}

/// "" where `kernel`, of the network of the loop, computes what the interpreter does of the unrolled layer.
inline std::string wrong_layer(const DrawnLayer& layer, const Network& network,
                               const NetworkKernel& kernel, uint64_t seed, double tolerance = 1e-4,
                               int calls = 1) {
  const std::vector<Tensor> args = args_of_loops(layer);
  const Values values(ComputeDag(layer.unrolled).placeholders(), seed);
  std::vector<NDArray> arrays;
  for (const Tensor& t : args) arrays.push_back(values.of(t));
  const std::vector<NDArray> want = interpret(layer.unrolled, values.list);
  kernel.refresh();
  for (int call = 0; call < calls; ++call) {
    for (size_t o = 0; o < want.size(); ++o) arrays[arrays.size() - want.size() + o].fill(77);
    kernel.call(arrays);
  }
  for (size_t o = 0; o < want.size(); ++o) {
    const NDArray& have = arrays[arrays.size() - want.size() + o];
    const Difference d = compare(have, want[o], tolerance, tolerance);
    if (!d.ok())
      return layer.text + ", output " + std::to_string(o) + ": " + describe(d, have) + "\n" +
             network.to_text();
  }
  return "";
}

/// Two layers, of which the second reads the first, as loops.
struct Stacked {
  Tensor x = placeholder({40, 2, 8}, f32, "x");
  Updates updates;
  std::vector<Tensor> outputs, unrolled;
  Stacked() {
    std::vector<ops::RecurrentWeights> weights;
    for (int l = 0; l < 2; ++l)
      weights.push_back({constant(NDArray::random({64, l == 0 ? 8 : 16}, f32, 3), "w"),
                         constant(NDArray::random({64, 16}, f32, 4), "r")});
    for (const bool looped : {true, false}) {
      Tensor t = x;
      for (int l = 0; l < 2; ++l) {
        Recurrence loop("layer" + std::to_string(l), Expr(40));
        t = ops::lstm(t, weights[static_cast<size_t>(l)],
                      {.reverse = l == 1, .loop = looped ? &loop : nullptr})
                .all;
        if (looped) updates.repeats.push_back(loop.repeat());
      }
      (looped ? outputs : unrolled).push_back(ops::relu(t));
    }
  }
  Network network(const std::string& passes = "") const {
    return Network(outputs, Target::host(), {}, parse_passes(passes), updates);
  }
};

}  // namespace heddle::testing
