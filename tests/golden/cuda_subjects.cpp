#include "golden/subjects.h"
#include "heddle/autodiff/gradient.h"
#include "heddle/ops/ops.h"

namespace heddle::testing {
namespace {

const char* const kH200 = "cuda -gpu=h200";
const char* const kA100 = "cuda -gpu=a100";

using Subjects = std::vector<GoldenSubject>;

Tensor input(const Shape& shape, const char* name, DataType t = f32) {
  return placeholder(shape, t, name);
}

void add_products(Subjects& out) {
  out.push_back({"matmul_f32",
                 "A @ B, 512 x 512 x 512, f32: multiply-adds of threads",
                 kH200,
                 {ops::matmul(input({512, 512}, "A"), input({512, 512}, "B"))}});
  AutoSchedulerOptions tf32;
  tf32.allow_tf32 = true;
  out.push_back({"matmul_tf32",
                 "A @ B, 512 x 512 x 512, f32 rounded to tf32",
                 kH200,
                 {ops::matmul(input({512, 512}, "A"), input({512, 512}, "B"))},
                 tf32});
  const Tensor causal = compute(
      {300, 300}, [](const std::vector<Axis>& i) -> Expr { return i[1] <= i[0]; }, "causal");
  out.push_back({"attention_f16",
                 "attention, 8 heads, 300 tokens, causal, f16",
                 kH200,
                 {ops::scaled_dot_product_attention(input({8, 300, 64}, "Q", f16),
                                                    input({8, 300, 64}, "K", f16),
                                                    input({8, 300, 64}, "V", f16), causal)}});
  const auto product_of_heads = [&] {
    return ops::matmul(input({16, 300, 64}, "Q", f16), input({16, 300, 64}, "K", f16), false, true,
                       {.accumulate = f32, .output = f32});
  };
  out.push_back({"two_products_f16",
                 "a product with relu behind it, times a value, 16 x 300 x 64, f16",
                 kH200,
                 {ops::matmul(ops::cast(ops::relu(product_of_heads()), f16),
                              input({16, 300, 64}, "V", f16))}});
  out.push_back({"row_max_of_product_f16",
                 "maxima of rows of a product, 16 x 300 x 64, f16",
                 kH200,
                 {ops::max(product_of_heads(), {-1})}});
  out.push_back({"matmul_bf16",
                 "A @ B, 4096 x 4096 x 4096, bf16",
                 kH200,
                 {ops::matmul(input({4096, 4096}, "A", bf16), input({4096, 4096}, "B", bf16))}});
  out.push_back(
      {"matmul_f16_tails",
       "gelu(A @ B + bias), 250 x 200 x 120, f16",
       kA100,
       {ops::gelu(ops::add(ops::matmul(input({250, 120}, "A", f16), input({120, 200}, "B", f16)),
                           input({200}, "bias", f16)))}});
  out.push_back({"matvec",
                 "A @ x, 2048 x 2048, f32",
                 kH200,
                 {ops::matvec(input({2048, 2048}, "A"), input({2048}, "x"))}});
  ops::Conv same{.padding = {1, 1}};
  out.push_back(
      {"conv2d_f32",
       "relu(conv2d), 1 x 32 x 28 x 28, 64 filters of 3 x 3, f32",
       kH200,
       {ops::relu(ops::conv2d(input({1, 32, 28, 28}, "X"), input({64, 32, 3, 3}, "W"), same))}});
  same.layout = ops::NHWC;
  out.push_back(
      {"conv2d_f16_nhwc",
       "conv2d, 8 x 28 x 28 x 64, 64 filters of 3 x 3, f16: implicit GEMM",
       kH200,
       {ops::conv2d(input({8, 28, 28, 64}, "X", f16), input({3, 3, 64, 64}, "W", f16), same)}});
  out.push_back({"conv2d_winograd",
                 "conv2d, 16 x 28 x 28 x 128, 128 filters of 3 x 3, f32: Winograd's algorithm",
                 kA100,
                 {ops::conv2d(input({16, 28, 28, 128}, "X"),
                              constant_placeholder({3, 3, 128, 128}, f32, "W"), same)}});
  const Axis c = reduce_axis(256, "c"), tap = reduce_axis(1, "r"), tap2 = reduce_axis(1, "s");
  const Tensor image = input({8, 56, 56, 256}, "X", f16),
               filters = constant_placeholder({512, 256, 1, 1}, f16, "W");
  out.push_back(
      {"conv2d_1x1_strided",
       "conv2d, 8 x 56 x 56 x 256, 512 filters of 1 x 1 as in an ONNX file, stride 2, f16",
       kH200,
       {compute(
           {8, 28, 28, 512},
           [&](Axis n, Axis y, Axis x, Axis k) {
             return cast(f16, sum(cast(f32, image(n, y * 2 + tap, x * 2 + tap2, c)) *
                                      cast(f32, filters(k, c, tap, tap2)),
                                  {c, tap, tap2}));
           },
           "conv")}});
  out.push_back(
      {"conv2d_of_one_pixel",
       "conv2d of one pixel, 1536 channels to 64, f16: rows of weights are read by vectors",
       kH200,
       {ops::conv2d(input({1, 1536, 1, 1}, "X", f16), input({64, 1536, 1, 1}, "W", f16))}});
  out.push_back({"depthwise_f16_nhwc",
                 "depthwise conv2d, 8 x 30 x 30 x 96, filters of 3 x 3, f16",
                 kH200,
                 {ops::depthwise_conv2d(input({8, 30, 30, 96}, "X", f16),
                                        input({3, 3, 1, 96}, "W", f16), same)}});
  AutoSchedulerOptions naive;
  naive.force_template = "cuda_naive";
  out.push_back({"matmul_naive",
                 "A @ B, 64 x 64 x 64, f32, a thread an element",
                 kH200,
                 {ops::matmul(input({64, 64}, "A"), input({64, 64}, "B"))},
                 naive});
}

void add_reductions(Subjects& out) {
  const Tensor rows = input({4096, 1024}, "X");
  out.push_back({"row_sum", "sums of rows, 4096 x 1024, f32", kH200, {ops::sum(rows, {1})}});
  out.push_back({"column_sum", "sums of columns, 4096 x 1024, f32", kH200, {ops::sum(rows, {0})}});
  out.push_back({"full_sum", "the sum of 4 Mi elements, f32", kH200, {ops::sum(rows, {})}});
  out.push_back({"argmax", "argmax of rows, 4096 x 1024, f32", kA100, {ops::argmax(rows, 1)}});
  out.push_back({"softmax", "softmax of rows, 4096 x 1024, f32", kH200, {ops::softmax(rows)}});
  out.push_back({"softmax_cluster",
                 "softmax of long rows, 256 x 65536, f32: a cluster a row",
                 kH200,
                 {ops::softmax(input({256, 65536}, "X"))}});
  out.push_back({"layer_norm",
                 "layer norm of rows, 4096 x 1024, f16",
                 kA100,
                 {ops::layer_norm(input({4096, 1024}, "X", f16), input({1024}, "scale", f16),
                                  input({1024}, "shift", f16))}});
  const Tensor table = input({2000, 96}, "table"), at = input({512}, "at", i64);
  out.push_back({"embedding_gradient",
                 "the gradient of 512 rows of a table of 2000 x 96, f32: lanes vote on places",
                 kH200, gradient({ops::gather(table, at)}, {table}, {input({512, 96}, "head")})});
  const Tensor places = input({300, 64}, "places", i64);
  const Axis q = reduce_axis(300, "q");
  out.push_back({"last_of_updates",
                 "the last of 300 updates of each of 500 elements of 64 columns, each with places "
                 "of its own: threads "
                 "combine numbers",
                 kH200,
                 {compute(
                     {500, 64},
                     [&](Axis i, Axis c) {
                       return max(select(places(q, c) == Expr(i), Expr(q), lowest_value(i64)), q);
                     },
                     "last")}});
}

void add_direct(Subjects& out) {
  out.push_back({"gelu", "gelu, 4096 x 1024, f32", kH200, {ops::gelu(input({4096, 1024}, "X"))}});
  out.push_back({"residual_relu",
                 "relu(X + Y), 33 x 1001, f16",
                 kA100,
                 {ops::relu(ops::add(input({33, 1001}, "X", f16), input({33, 1001}, "Y", f16)))}});
  out.push_back({"transpose",
                 "a transposed matrix, 1024 x 1024, f32",
                 kH200,
                 {ops::transpose(input({1024, 1024}, "X"))}});
  out.push_back({"max_pool",
                 "max_pool 3 x 3, stride 2, padded, 8 x 64 x 56 x 56, f32",
                 kH200,
                 {ops::max_pool(input({8, 64, 56, 56}, "X"),
                                {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})}});
  out.push_back(
      {"two_results",
       "exp(X) and its sums of rows, 512 x 512, f32: a producer of two",
       kH200,
       {ops::exp(input({512, 512}, "X")), ops::sum(ops::exp(input({512, 512}, "Y")), {1})}});
  out.push_back({"cumsum_rows",
                 "sums of what is before, 64 x 4096, f32",
                 kH200,
                 {ops::cumsum(input({64, 4096}, "X"), 1)}});
  out.push_back({"cumsum_columns",
                 "sums of what is above, 64 x 256 x 512, f32: lanes have columns",
                 kH200,
                 {ops::cumsum(input({64, 256, 512}, "X"), 1)}});
  out.push_back({"no_elements", "relu of nothing", kH200, {ops::relu(input({0, 16}, "X"))}});
}

}  // namespace

std::vector<GoldenSubject> cuda_subjects() {
  Subjects out;
  add_products(out);
  add_reductions(out);
  add_direct(out);
  return out;
}

}  // namespace heddle::testing
