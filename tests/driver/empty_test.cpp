// Extents of 0: kernels and networks take them as arrays do, on the interpreter, through LLVM and
// in the emulator.
#include "driver/driver_testing.h"
#include "heddle/codegen/emulator.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::testing {
namespace {

/// "" where kernels of the static and the naive schedule, and the emulated program of a GPU, give
/// what the interpreter says. `args`: all that was declared, in call order.
std::string wrong(const std::vector<Tensor>& outputs, std::vector<Tensor> args) {
  std::vector<TensorValue> inputs;
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < args.size(); ++i) {
    arrays.push_back(random_like(args[i], i + 1));
    inputs.push_back({args[i], arrays.back()});
  }
  args.insert(args.end(), outputs.begin(), outputs.end());
  const std::vector<NDArray> want = interpret(outputs, inputs);
  const auto run = [&](const std::function<void(const std::vector<NDArray>&)>& call) {
    std::vector<NDArray> all = arrays;
    for (const Tensor& t : outputs) all.push_back(full_like(t, 77));
    call(all);
    for (size_t o = 0; o < want.size(); ++o) {
      const NDArray& got = all[arrays.size() + o];
      if (!compare(got, want[o], 1e-5, 1e-5).ok()) return "output " + std::to_string(o);
    }
    return std::string();
  };
  const Target gpu = Target::parse("cuda -gpu=h100");
  const std::pair<std::string, std::string> results[] = {
      {"static", run([&](const auto& a) { build(create_schedule(outputs), args).call(a); })},
      {"naive", run([&](const auto& a) { build(naive_schedule(outputs), args).call(a); })},
      {"network", run([&](const auto& a) { Network(outputs).build(args).call(a); })},
      {"gpu",
       run([&](const auto& a) { emulate(lower_gpu(create_schedule(outputs, gpu), args), a); })},
      {"naive gpu",
       run([&](const auto& a) { emulate(lower_gpu(naive_schedule(outputs, gpu), args), a); })},
  };
  for (const auto& [how, result] : results) {
    if (!result.empty()) return how + ": " + result;
  }
  return "";
}

TEST(Empty, AnEmptyBatchOfALayer) {
  const Tensor x = placeholder({0, 16}, f32, "x"), w = placeholder({16, 8}, f32, "w");
  const Tensor b = placeholder({8}, f32, "b");
  const Tensor y = ops::softmax(ops::relu(ops::add(ops::matmul(x, w), b)));
  EXPECT_EQ(y.extents(), (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(wrong({y}, {x, w, b}), "");
}

TEST(Empty, AnEmptyBatchOfImages) {
  const Tensor x = placeholder({0, 3, 8, 8}, f32, "x"), w = placeholder({4, 3, 3, 3}, f32, "w");
  const Tensor y = ops::flatten(
      ops::max_pool(ops::relu(ops::conv2d(x, w, {.padding = {1}})), {.kernel = {2, 2}}));
  EXPECT_EQ(y.extents(), (std::vector<int64_t>{0, 4 * 4 * 4}));
  EXPECT_EQ(wrong({y}, {x, w}), "");
}

TEST(Empty, ReductionsOverNothingGiveTheirIdentity) {
  const Tensor x = placeholder({5, 0}, f32, "x"), z = placeholder({0, 7}, f32, "z");
  EXPECT_EQ(wrong({ops::sum(x, {1}), ops::max(x, {1}), ops::prod(x, {1})}, {x}), "");
  const Tensor product = ops::matmul(x, z);
  EXPECT_EQ(wrong({product}, {x, z}), "");
  const Kernel kernel = build(create_schedule({product}), {x, z, product});
  const NDArray out = full_like(product, 3);
  kernel(zeros_like(x), zeros_like(z), out);
  EXPECT_EQ(max_abs_diff(out, zeros_like(product)), 0);
  const Tensor most = ops::max(x);
  const NDArray one = full_like(most, 3);
  build(create_schedule({most}), {x, most})(zeros_like(x), one);
  EXPECT_EQ(one.get(0), -std::numeric_limits<double>::infinity());
}

TEST(Empty, ResultsWithAndWithoutElementsTogether) {
  const Tensor x = placeholder({6, 8}, f32, "x"), none = placeholder({0, 8}, f32, "none");
  const Tensor y = ops::relu(x), empty = ops::relu(none);
  EXPECT_EQ(wrong({y, empty}, {x, none}), "");
  EXPECT_EQ(wrong({empty, y}, {none, x}), "");
}

TEST(Empty, PartsOfAWhole) {
  const Tensor x = placeholder({6, 8}, f32, "x"), none = placeholder({0, 8}, f32, "none");
  EXPECT_EQ(wrong({ops::concat({none, x}, 0)}, {none, x}), "");
  EXPECT_EQ(wrong({ops::concat({x, none, x}, 0)}, {x, none}), "");
  EXPECT_EQ(wrong({ops::transpose(none)}, {none}), "");
  EXPECT_EQ(wrong({ops::reshape(none, {0, 4, 2})}, {none}), "");
}

TEST(Empty, UnreadInputsMayBeLeftOutAndOthersStayForeign) {
  const Tensor x = placeholder({0, 4}, f32, "x"), other = placeholder({4}, f32, "other");
  const Tensor y = ops::relu(x);
  build(create_schedule({y}), {y})(zeros_like(y));
  EXPECT_NE(error_of([&] { build(create_schedule({y}), {x, other, y}); }).find("neither an input"),
            std::string::npos);
  EXPECT_NE(error_of([&] { build(create_schedule({y}), {x, x, y}); }).find("listed twice"),
            std::string::npos);
}

TEST(Empty, TuningHasNothingToDo) {
  const Tensor x = placeholder({0, 4}, f32, "x"), y = ops::relu(x);
  const TuneResult result = tune({y}, {.max_trials = 3});
  EXPECT_FALSE(result.improved);
  build(result.schedule, {x, y})(zeros_like(x), zeros_like(y));
}

}  // namespace
}  // namespace heddle::testing
