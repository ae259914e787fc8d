// The memory-bound declarations that the CUDA templates are tested with, at any shape.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/heddle.h"
#include "heddle/ops/ops.h"

namespace heddle::testing {

struct MemoryBound {
  std::string name;
  std::vector<Tensor> outputs;
};

/// Over (m, n) operands of type `t`.
inline std::vector<MemoryBound> row_programs(int64_t m, int64_t n, DataType t = f32) {
  const Tensor x = placeholder({m, n}, t, "x"), y = placeholder({m, n}, t, "y");
  const Tensor scale = placeholder({n}, t, "scale"), shift = placeholder({n}, t, "shift");
  return {
      {"row_sum", {ops::sum(x, {1})}},
      {"row_mean", {ops::mean(x, {-1}, true)}},
      {"column_sum", {ops::sum(x, {0})}},
      {"full_sum", {ops::sum(x, {})}},
      {"full_mean", {ops::mean(x, {})}},
      {"argmax", {ops::argmax(x, 1)}},
      {"argmin_columns", {ops::argmin(x, 0)}},
      {"softmax", {ops::softmax(x)}},
      {"softmax_columns", {ops::softmax(x, 0)}},
      {"log_softmax", {ops::log_softmax(x)}},
      {"layer_norm", {ops::layer_norm(x, scale, shift)}},
      {"rms_norm", {ops::rms_norm(x, scale)}},
      {"bias_gelu", {ops::gelu(ops::add(x, shift))}},
      {"gelu", {ops::gelu(x)}},
      {"residual_relu", {ops::relu(ops::add(x, y))}},
      {"transpose", {ops::transpose(x)}},
      {"masked_softmax", {ops::softmax(ops::add(ops::mul(x, 0.5), y))}},
      {"two_results", {ops::exp(x), ops::sum(ops::exp(x), {1})}},
      {"variance", {ops::var(x, {1})}},
      {"logsumexp", {ops::logsumexp(x, {-1})}},
  };
}

/// That of `row_programs` with this name.
inline MemoryBound row_program(const std::string& name, int64_t m, int64_t n, DataType t = f32) {
  for (MemoryBound& p : row_programs(m, n, t))
    if (p.name == name) return p;
  throw std::out_of_range("no row program of the name " + name);
}

/// Over images of (batch, channels, side, side + 1).
inline std::vector<MemoryBound> image_programs(int64_t batch, int64_t channels, int64_t side) {
  const Tensor x = placeholder({batch, channels, side, side + 1}, f32, "x");
  const Tensor a = placeholder({batch, 3, side, side + 1}, f32, "a");
  return {
      {"concat", {ops::concat({x, a, x}, 1)}},
      {"concat_last", {ops::concat({x, x, x}, -1)}},
      {"max_pool", {ops::max_pool(x, {.kernel = {2, 2}})}},
      {"max_pool_overlapping",
       {ops::max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})}},
      {"global_avg_pool", {ops::global_avg_pool(x)}},
      {"resize", {ops::resize(x, {2 * side, 2 * side - 1})}},
      {"instance_norm", {ops::instance_norm(x)}},
      {"permute", {ops::transpose(x, {0, 2, 3, 1})}},
      {"slice_relu", {ops::relu(ops::slice(x, {0, 0, 1, 0}, {batch, channels, side, side}))}},
  };
}

/// Of which one operand is read once, and that is the work.
inline std::vector<MemoryBound> vector_programs() {
  const Tensor a = placeholder({70, 140}, f32, "a"), b = placeholder({140, 92}, f32, "b");
  const Tensor v = placeholder({140}, f32, "v"), one = placeholder({1, 140}, f32, "one");
  return {
      {"matvec", {ops::matmul(a, v)}},
      {"vecmat", {ops::matmul(one, b)}},
      {"vecmat_relu", {ops::relu(ops::matmul(one, b))}},
  };
}

/// Contractions, which other templates also schedule.
inline std::vector<MemoryBound> contraction_programs() {
  const Tensor a = placeholder({17, 40}, f32, "a"), b = placeholder({40, 23}, f32, "b");
  const Tensor x = placeholder({2, 4, 9, 8}, f32, "x"), w = placeholder({5, 4, 3, 3}, f32, "w");
  return {
      {"matmul", {ops::matmul(a, b)}},
      {"matmul_relu", {ops::relu(ops::matmul(a, b))}},
      {"conv_relu", {ops::relu(ops::conv2d(x, w, {.padding = {1, 1}}))}},
      {"attention",
       {ops::scaled_dot_product_attention(a, placeholder({33, 40}, f32, "k"),
                                          placeholder({33, 8}, f32, "val"))}},
  };
}

}  // namespace heddle::testing
