#include "golden/subjects.h"
#include "heddle/ops/ops.h"

namespace heddle::testing {
namespace {

const char* const kZen3 = "llvm -mcpu=znver3 -mtriple=x86_64-linux-gnu";
const char* const kSkylake = "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu";
const char* const kEmeraldRapids = "llvm -mcpu=emeraldrapids -mtriple=x86_64-linux-gnu";
const char* const kSapphireRapids = "llvm -mcpu=sapphirerapids -mtriple=x86_64-linux-gnu";

using Subjects = std::vector<GoldenSubject>;

Tensor input(const Shape& shape, const char* name, DataType t = f32) {
  return placeholder(shape, t, name);
}
Tensor weight(const Shape& shape, const char* name, DataType t = f32) {
  return constant_placeholder(shape, t, name);
}

Tensor product(int m, int n, int k, DataType a = f32, DataType b = f32) {
  return ops::matmul(input({m, k}, "A", a), input({k, n}, "B", b));
}

Tensor scattered_rows(int rows, int columns, int sources) {
  const Tensor x = input({sources, columns}, "X"), at = input({sources}, "at", i64);
  const Axis q = reduce_axis(sources, "q");
  return compute(
      {rows, columns},
      [&](Axis i, Axis c) { return sum(select(at(q) == Expr(i), x(q, c), 0.f), q); }, "scattered");
}

void add_products(Subjects& out) {
  out.push_back({"matmul_znver3", "A @ B, 512 x 512 x 512, f32", kZen3, {product(512, 512, 512)}});
  out.push_back(
      {"matmul_skylake", "A @ B, 512 x 512 x 512, f32", kSkylake, {product(512, 512, 512)}});
  out.push_back({"matmul_tails",
                 "relu(A @ W + bias), 100 x 203 x 77, f32, W constant",
                 kSkylake,
                 {ops::relu(ops::add(ops::matmul(input({100, 77}, "A"), weight({77, 203}, "W")),
                                     weight({203}, "bias")))}});
  out.push_back(
      {"matmul_small", "A @ B, 48 x 48 x 48, f32: one task", kZen3, {product(48, 48, 48)}});
  out.push_back({"matmul_deep",
                 "A @ B, 32 x 32 x 65536, f32: few results, a long reduction",
                 kZen3,
                 {product(32, 32, 65536)}});
  out.push_back({"matmul_transposed",
                 "A^T @ B^T, 256 x 256 x 256, f32",
                 kSkylake,
                 {ops::matmul(input({256, 256}, "A"), input({256, 256}, "B"), true, true)}});
  out.push_back({"matvec",
                 "A @ x, 2048 x 2048, f32",
                 kZen3,
                 {ops::matvec(input({2048, 2048}, "A"), input({2048}, "x"))}});
  out.push_back({"batch_matmul",
                 "24 products of 64 x 64 x 64, f32",
                 kZen3,
                 {ops::batch_matmul(input({24, 64, 64}, "A"), input({24, 64, 64}, "B"))}});
  out.push_back({"matmul_f16_widened",
                 "A @ B, 128 x 128 x 128, f16: copied as f32",
                 kZen3,
                 {product(128, 128, 128, f16, f16)}});
  out.push_back({"matmul_i8_pairs",
                 "A @ B, 128 x 128 x 128, i8 in i32: pairs",
                 kSkylake,
                 {product(128, 128, 128, i8, i8)}});
  out.push_back({"matmul_u8_i8_fours",
                 "A @ B, 128 x 128 x 128, u8 x i8 in i32: fours",
                 "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu",
                 {product(128, 128, 128, u8, i8)}});
}

Tensor attention(int heads, int length) {
  const Shape shape{heads, length, 64};
  return ops::scaled_dot_product_attention(input(shape, "q"), input(shape, "k"), input(shape, "v"));
}

void add_attention(Subjects& out) {
  out.push_back({"attention",
                 "softmax(q @ k^T) @ v, 2 heads of 864 x 64, f32: by blocks of rows",
                 kZen3,
                 {attention(2, 864)}});
  out.push_back({"attention_long",
                 "softmax(q @ k^T) @ v, 2 heads of 2304 x 64, f32: blocks of the last reduction",
                 kZen3,
                 {attention(2, 2304)}});
  out.push_back({"columns_of_product",
                 "(q @ k^T + 1)^T @ v, 2 heads of 864 x 64, f32: tiles of the matrix",
                 kSkylake,
                 {ops::matmul(ops::add(ops::matmul(input({2, 864, 64}, "q"),
                                                   input({2, 864, 64}, "k"), false, true),
                                       Expr(1.0f)),
                              input({2, 864, 64}, "v"), true, false)}});
}

/// A convolution of an image as it lies between the layers of a network, by filters [k, c, r, s].
Tensor convolution_of_channels_last() {
  const Tensor x = input({4, 5, 5, 64}, "X"), w = input({64, 64, 3, 3}, "W");
  const Axis c = reduce_axis(64, "c"), r = reduce_axis(3, "r"), s = reduce_axis(3, "s");
  return compute(
      {4, 3, 3, 64},
      [&](Axis n, Axis i, Axis j, Axis k) {
        return sum(x(n, i + r, j + s, c) * w(k, c, r, s), {r, s, c});
      },
      "conv2d");
}

void add_convolutions(Subjects& out) {
  AutoSchedulerOptions direct;
  direct.use_alternatives = false;
  const ops::Conv same{.padding = {1, 1}};
  ops::Conv last = same;
  last.layout = ops::NHWC;
  out.push_back(
      {"conv2d_nchw",
       "relu(conv2d), 1 x 32 x 28 x 28, 64 filters of 3 x 3, no alternative",
       kZen3,
       {ops::relu(ops::conv2d(input({1, 32, 28, 28}, "X"), weight({64, 32, 3, 3}, "W"), same))},
       direct});
  out.push_back({"conv2d_nhwc",
                 "conv2d + bias, 1 x 28 x 28 x 32, 64 filters of 3 x 3, no alternative",
                 kSkylake,
                 {ops::conv2d(input({1, 28, 28, 32}, "X"), weight({3, 3, 32, 64}, "W"), last,
                              weight({64}, "bias"))},
                 direct});
  out.push_back({"conv2d_padded",
                 "conv2d, 1 x 28 x 28 x 16, 24 filters of 3 x 3: the constants of the chip say "
                 "where it is padded",
                 kEmeraldRapids,
                 {ops::conv2d(input({1, 28, 28, 16}, "X"), weight({3, 3, 16, 24}, "W"), last)},
                 direct});
  out.push_back(
      {"conv2d_argument",
       "conv2d, 4 x 5 x 5 x 64, 64 filters of 3 x 3 that are an argument: squares of their "
       "channels and taps are transposed",
       kSkylake,
       {convolution_of_channels_last()},
       direct});
  ops::Conv strided = same;
  strided.stride = {2, 2};
  out.push_back({"conv2d_strided",
                 "conv2d, 1 x 32 x 28 x 28, 64 filters of 3 x 3, stride 2: channels last",
                 kSkylake,
                 {ops::conv2d(input({1, 32, 28, 28}, "X"), weight({64, 32, 3, 3}, "W"), strided)}});
  out.push_back(
      {"conv2d_1x1",
       "conv2d, 1 x 256 x 14 x 14, 64 filters of 1 x 1",
       kZen3,
       {ops::conv2d(input({1, 256, 14, 14}, "X"), weight({64, 256, 1, 1}, "W"), ops::Conv{})}});
  out.push_back({"conv2d_winograd",
                 "conv2d, 1 x 64 x 56 x 56, 64 filters of 3 x 3: Winograd's algorithm",
                 kSkylake,
                 {ops::conv2d(input({1, 64, 56, 56}, "X"), weight({64, 64, 3, 3}, "W"), same)}});
  out.push_back(
      {"depthwise_conv2d",
       "depthwise conv2d, 1 x 32 x 56 x 56, 3 x 3",
       kZen3,
       {ops::depthwise_conv2d(input({1, 32, 56, 56}, "X"), weight({32, 1, 3, 3}, "W"), same)}});
}

void add_tile_products(Subjects& out) {
  out.push_back({"tiles_bf16",
                 "A @ W, 256 x 256 x 256, bf16, W constant",
                 kSapphireRapids,
                 {ops::matmul(input({256, 256}, "A", bf16), weight({256, 256}, "W", bf16))}});
  out.push_back({"tiles_i8_tails",
                 "A @ W, 100 x 90 x 70, i8 in i32, W constant: padded",
                 kSapphireRapids,
                 {ops::matmul(input({100, 70}, "A", i8), weight({70, 90}, "W", i8))}});
}

void add_reductions(Subjects& out) {
  const Tensor rows = input({1024, 1024}, "X");
  out.push_back({"row_sum", "sums of rows, 1024 x 1024, f32", kZen3, {ops::sum(rows, {1})}});
  out.push_back({"column_sum", "sums of columns, 1024 x 1024, f32", kZen3, {ops::sum(rows, {0})}});
  out.push_back({"full_mean",
                 "the mean of 4 Mi elements, f32",
                 kSkylake,
                 {ops::mean(input({4096, 1024}, "X"), {})}});
  out.push_back({"argmax",
                 "argmax of rows, 256 x 1000, f32",
                 kZen3,
                 {ops::argmax(input({256, 1000}, "X"), 1)}});
  out.push_back({"softmax", "softmax of rows, 1024 x 1024, f32", kSkylake, {ops::softmax(rows)}});
  out.push_back({"layer_norm",
                 "layer norm of rows from memory, 16384 x 1024, f32: software pipeline",
                 kSkylake,
                 {ops::layer_norm(input({16384, 1024}, "X"), weight({1024}, "scale"),
                                  weight({1024}, "shift"))}});
  out.push_back({"global_avg_pool",
                 "means of 7 x 7 pixels, 8 x 512 channels, f32",
                 kZen3,
                 {ops::global_avg_pool(input({8, 512, 7, 7}, "X"))}});
  out.push_back({"max_pool",
                 "max_pool 3 x 3, stride 2, padded, 1 x 64 x 56 x 56, f32",
                 kSkylake,
                 {ops::max_pool(input({1, 64, 56, 56}, "X"),
                                {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})}});
}

void add_direct(Subjects& out) {
  out.push_back(
      {"gelu", "gelu, 1024 x 1024, f32", kSkylake, {ops::gelu(input({1024, 1024}, "X"))}});
  out.push_back({"residual_relu",
                 "relu(X + Y), 33 x 1001, f32",
                 kZen3,
                 {ops::relu(ops::add(input({33, 1001}, "X"), input({33, 1001}, "Y")))}});
  out.push_back({"transpose",
                 "a transposed matrix, 1024 x 1024, f32",
                 kZen3,
                 {ops::transpose(input({1024, 1024}, "X"))}});
  out.push_back({"transpose_recorded",
                 "a transposed matrix, 197 x 768, f32: there is a record of it",
                 "llvm -mcpu=znver3 -threads=2",
                 {ops::transpose(input({197, 768}, "X"))}});
  out.push_back({"concat",
                 "two images side by side, f32",
                 kSkylake,
                 {ops::concat({input({4, 16, 28, 28}, "X"), input({4, 8, 28, 28}, "Y")}, 1)}});
  out.push_back({"scatter_rows",
                 "rows of 64 added where an index says, 1000 rows, 100 indices",
                 kSkylake,
                 {scattered_rows(1000, 64, 100)}});
  out.push_back({"cumsum_rows",
                 "sums of what is before, 64 x 4096, f32",
                 kZen3,
                 {ops::cumsum(input({64, 4096}, "X"), 1)}});
  out.push_back({"cumsum_columns",
                 "sums of what is above, 512 x 512, f32",
                 kSkylake,
                 {ops::cumsum(input({512, 512}, "X"), 0)}});
  out.push_back({"no_elements", "relu of nothing", kZen3, {ops::relu(input({0, 16}, "X"))}});
}

}  // namespace

std::vector<GoldenSubject> cpu_subjects() {
  Subjects out;
  add_products(out);
  add_attention(out);
  add_convolutions(out);
  add_tile_products(out);
  add_reductions(out);
  add_direct(out);
  return out;
}

}  // namespace heddle::testing
