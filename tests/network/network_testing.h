// Helpers of the tests of networks: small networks, and comparisons with the interpreter.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "heddle/codegen/interpreter.h"
#include "heddle/heddle.h"
#include "heddle/network/network.h"
#include "heddle/ops/ops.h"

namespace heddle::testing {

/// The message of the error of `call`.
template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// The network of these outputs with the passes that the text names.
inline Network with_passes(const std::vector<Tensor>& outputs, const std::string& passes) {
  return Network(outputs, Target::host(), {}, parse_passes(passes));
}

/// The name of the task of each node.
inline std::vector<std::string> tasks_of(const Network& network) {
  std::vector<std::string> names;
  for (const NetworkNode& node : network.nodes())
    names.push_back(network.tasks()[static_cast<size_t>(node.task)].name);
  return names;
}

/// Placeholders in the order of the graph, then the outputs.
inline std::vector<Tensor> args_of(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> args = ComputeDag(outputs).placeholders();
  args.insert(args.end(), outputs.begin(), outputs.end());
  return args;
}

/// Values for the inputs among `args`, seeded; variances (by name) are positive. Outputs are filled
/// with a value that nothing computes.
inline std::vector<NDArray> arrays_for(const std::vector<Tensor>& args, uint64_t seed = 1) {
  std::vector<NDArray> arrays;
  for (const Tensor& t : args) {
    if (!t.op()->is_placeholder()) {
      arrays.push_back(NDArray::full(t.extents(), t.dtype(), 77));
    } else if (t.name() == "variance") {
      arrays.push_back(NDArray::random(t.extents(), t.dtype(), seed++, 0.5, 1.5));
    } else {
      arrays.push_back(NDArray::random(t.extents(), t.dtype(), seed++));
    }
  }
  return arrays;
}

/// "" when the outputs among `arrays` are what the interpreter computes from the inputs.
inline std::string differs_from_interpreter(const std::vector<Tensor>& outputs,
                                            const std::vector<Tensor>& args,
                                            const std::vector<NDArray>& arrays,
                                            double tolerance = 1e-4) {
  std::vector<TensorValue> inputs;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].op()->is_placeholder()) inputs.push_back({args[i], arrays[i]});
  }
  const std::vector<NDArray> want = interpret(outputs, inputs);
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (!args[i].same_as(outputs[o])) continue;
      const Difference d = compare(arrays[i], want[o], tolerance, tolerance);
      if (!d.ok()) return outputs[o].name() + ": " + describe(d, arrays[i]);
    }
  }
  return "";
}

/// "" when the network of `outputs` computes what the interpreter does, with the static schedules
/// (twice: the arena and what was prepared must survive) and with the naive ones.
inline std::string wrong_network(const std::vector<Tensor>& outputs, double tolerance = 1e-4,
                                 const std::string& passes = "") {
  const Network net(outputs, Target::host(), {}, parse_passes(passes));
  const std::vector<Tensor> args = args_of(outputs);
  for (bool naive : {false, true}) {
    const NetworkKernel run = naive ? net.build(args, net.naive_schedules()) : net.build(args);
    std::vector<NDArray> arrays = arrays_for(args);
    for (int time = 0; time < (naive ? 1 : 2); ++time) {
      for (size_t i = 0; i < args.size(); ++i) {
        if (!args[i].op()->is_placeholder()) arrays[i].fill(77);
      }
      run.call(arrays);
      const std::string wrong = differs_from_interpreter(outputs, args, arrays, tolerance);
      if (!wrong.empty()) {
        return std::string(naive ? "naive: " : "static: ") + wrong + "\n" + net.to_text();
      }
    }
  }
  return "";
}

inline Tensor weights(Shape shape, const std::string& name = "weights") {
  return constant_placeholder(std::move(shape), f32, name);
}

/// A product with weights, and a bias.
inline Tensor linear(const Tensor& x, int64_t columns) {
  return ops::add(ops::matmul(x, weights({x.extent(-1), columns})), weights({columns}, "bias"));
}

/// Attention whose query, key and value are products of one input.
inline Tensor attention(const Tensor& x) {
  const auto heads = [&](const Tensor& t) {
    return ops::transpose(ops::reshape(t, {1, x.extent(1), 4, t.extent(2) / 4}), {0, 2, 1, 3});
  };
  const int64_t n = x.extent(2);
  const Tensor q = heads(linear(x, n)), k = heads(linear(x, n)), v = heads(linear(x, n));
  const Tensor sum = ops::matmul(ops::softmax(ops::matmul(q, k, false, true), -1), v);
  return ops::reshape(ops::transpose(sum, {0, 2, 1, 3}), {1, x.extent(1), n});
}

/// conv 3x3 (padded) -> batch norm, with weights of its own.
inline Tensor conv_norm(const Tensor& x, int64_t channels) {
  Tensor y = ops::conv2d(x, weights({channels, x.extent(1), 3, 3}), {.padding = {1}});
  auto per_channel = [&](const char* name) { return weights({channels}, name); };
  return ops::batch_norm(y, per_channel("scale"), per_channel("shift"), per_channel("mean"),
                         per_channel("variance"));
}

/// relu(x + norm(conv(relu(norm(conv(x)))))), every layer with weights of its own.
inline Tensor residual_block(const Tensor& x) {
  const int64_t c = x.extent(1);
  return ops::relu(ops::add(conv_norm(ops::relu(conv_norm(x, c)), c), x));
}

inline Tensor dense_layer(const Tensor& x, int64_t width) {
  return ops::dense(x, weights({width, x.extent(1)}), weights({width}, "bias"));
}

/// The network of tutorial 3, smaller.
inline Tensor digits_network(int64_t batch = 3) {
  Tensor x = placeholder({batch, 1, 8, 8}, f32, "images");
  x = ops::relu(ops::conv2d(x, weights({4, 1, 3, 3}), {.padding = {1}}, weights({4}, "bias")));
  x = ops::relu(ops::conv2d(x, weights({6, 4, 3, 3}), {.padding = {1}}, weights({6}, "bias")));
  x = ops::flatten(ops::max_pool(x, {.kernel = {2}}));
  return dense_layer(ops::relu(dense_layer(x, 16)), 10);
}

}  // namespace heddle::testing
