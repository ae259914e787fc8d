// A network, run node by node, computes what the interpreter computes from its declaration.
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

Tensor image(int64_t channels = 4) { return placeholder({2, channels, 6, 6}, f32, "image"); }

struct Case {
  const char* name;
  std::function<std::vector<Tensor>()> outputs;
};

std::vector<Case> cases() {
  return {
      {"elementwise", [] { return std::vector{ops::relu(placeholder({5, 7}, f32, "x"))}; }},
      {"digits", [] { return std::vector{digits_network()}; }},
      {"conv_norm_relu_pool_dense",
       [] {
         Tensor x = ops::max_pool(ops::relu(conv_norm(image(), 6)), {.kernel = {2}});
         return std::vector{dense_layer(ops::flatten(x), 5)};
       }},
      {"residual_blocks",
       [] { return std::vector{ops::global_avg_pool(residual_block(residual_block(image())))}; }},
      {"shared_weights",
       [] {
         Tensor w = weights({9, 9}, "w"), x = placeholder({4, 9}, f32, "x");
         Tensor y = ops::relu(ops::matmul(x, w));
         return std::vector{ops::relu(ops::matmul(y, w))};
       }},
      {"one_task_with_other_weights",
       [] {
         Tensor x = placeholder({4, 9}, f32, "x");
         for (int i = 0; i < 3; ++i) x = ops::relu(dense_layer(x, 9));
         return std::vector{x};
       }},
      {"diamond",
       [] {
         Tensor x = ops::matmul(placeholder({6, 8}, f32, "x"), weights({8, 8}));
         Tensor left = ops::matmul(x, weights({8, 8})), right = ops::softmax(x);
         return std::vector{ops::mul(left, right)};
       }},
      {"two_outputs",
       [] {
         Tensor x = ops::relu(dense_layer(placeholder({3, 8}, f32, "x"), 8));
         return std::vector{dense_layer(x, 4), ops::softmax(dense_layer(x, 6))};
       }},
      {"softmax_head",
       [] { return std::vector{ops::softmax(dense_layer(placeholder({5, 12}, f32, "x"), 10))}; }},
      {"an_output_that_is_read_inside",
       [] {
         Tensor x = ops::relu(dense_layer(placeholder({3, 8}, f32, "x"), 8));
         return std::vector{dense_layer(x, 4), x};
       }},
      {"transposes",
       [] {
         Tensor x = placeholder({5, 8}, f32, "x");
         Tensor y = ops::transpose(ops::matmul(x, weights({8, 6})), {1, 0});
         return std::vector{ops::transpose(ops::matmul(y, weights({5, 7})), {1, 0})};
       }},
      {"channels_last_between",
       [] {
         Tensor x = ops::nchw_to_nhwc(image());
         x = ops::conv2d(x, weights({3, 3, 4, 5}), {.padding = {1}, .layout = ops::NHWC});
         return std::vector{ops::nhwc_to_nchw(ops::relu(x))};
       }},
      {"the_same_tensor_twice",
       [] {
         Tensor x = ops::matmul(placeholder({6, 6}, f32, "x"), weights({6, 6}));
         return std::vector{ops::matmul(x, x)};
       }},
      {"swapped_arguments",
       [] {
         Tensor x = placeholder({6, 6}, f32, "x"), y = placeholder({6, 6}, f32, "y");
         return std::vector{ops::sub(x, y), ops::sub(y, x)};
       }},
      {"attention",
       [] {
         Tensor x = placeholder({2, 6, 8}, f32, "x");
         Tensor q = ops::matmul(x, weights({8, 8})), k = ops::matmul(x, weights({8, 8})),
                v = ops::matmul(x, weights({8, 8}));
         Tensor y = ops::add(x, ops::scaled_dot_product_attention(q, k, v));
         return std::vector{ops::layer_norm(y, weights({8}), weights({8}))};
       }},
      {"a_tuple_of_which_one_is_read",
       [] {
         Tensor x = ops::matmul(placeholder({6, 8}, f32, "x"), weights({8, 9}));
         Tensor best = ops::argmax(x, 1);
         return std::vector{ops::cast(best, f32), ops::mul(x, ops::sigmoid(x))};
       }},
      {"an_output_made_of_constants",
       [] {
         Tensor w = weights({6, 6}, "w"), x = placeholder({6, 6}, f32, "x");
         Tensor folded = compute({6, 6}, [&](Axis i, Axis j) { return exp(w(j, i)); }, "folded");
         return std::vector{folded, ops::matmul(x, folded)};
       }},
      {"a_stage_that_reads_nothing",
       [] {
         Tensor ramp = compute({8}, [&](Axis i) { return exp(cast(f32, i) * Expr(0.1f)); }, "ramp");
         Tensor x = placeholder({4, 8}, f32, "x");
         Tensor scaled = ops::mul(x, ramp);
         return std::vector{ops::matmul(scaled, weights({8, 5})), ops::add(x, ramp)};
       }},
      {"rank_zero",
       [] {
         Tensor x = placeholder({4, 8}, f32, "x");
         Tensor total = ops::sum(x, {0, 1});
         Axis k = reduce_axis(4, "k");
         Tensor y = compute({8}, [&](Axis j) { return sum(x(k, j) * total.at({}), k); }, "y");
         return std::vector{y, ops::relu(total)};
       }},
      {"gather_from_a_layer",
       [] {
         Tensor x = ops::matmul(placeholder({6, 8}, f32, "x"), weights({8, 4}));
         Tensor index = placeholder({5}, i32, "index");
         return std::vector{ops::relu(ops::gather(x, index))};
       }},
  };
}

class NetworkResults : public ::testing::TestWithParam<size_t> {};

TEST_P(NetworkResults, AreThoseOfTheInterpreter) {
  EXPECT_EQ(wrong_network(cases()[GetParam()].outputs()), "");
}

INSTANTIATE_TEST_SUITE_P(All, NetworkResults, ::testing::Range<size_t>(0, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

}  // namespace
}  // namespace heddle::testing
