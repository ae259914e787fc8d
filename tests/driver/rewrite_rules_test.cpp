// Each rule on random declarations of odd and even shapes, with producers and epilogues, compiled
// and called with the arguments of the declaration, against its interpretation.
#include <array>
#include <cmath>
#include <limits>

#include "dag/rewrites/legal_rewrites.h"
#include "driver/driver_testing.h"
#include "driver/tolerance.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/support/rng.h"

namespace heddle::testing {
namespace {

/// The rewrites by `rule` with the parameters that suit two cores.
std::vector<std::string> rewrites(const ComputeDag& dag, const std::string& rule) {
  Target target = Target::host();
  target.cores = 2;
  std::vector<std::string> out;
  for (const std::string& name : legal_rewrites(dag, target)) {
    if (name.starts_with(rule + "(") || name.starts_with(rule + "@")) out.push_back(name);
  }
  return out;
}

/// What is wrong with the results of the rewrite `name` of `y`; empty where nothing is.
std::string wrong(const Tensor& y, const std::string& name) {
  const ComputeDag dag({y});
  const Template t = make_template(apply_alternative(dag, name), Target::host());
  std::vector<Tensor> args = dag.placeholders();
  args.push_back(y);
  Kernel kernel = build(t.instantiate(t.default_config()), args);
  const std::vector<NDArray> arrays = call_arrays(dag);
  kernel.call(arrays);
  const NDArray want = wanted(dag, arrays)[0];
  driver::Tolerance allowed = driver::rounding_tolerance(dag, want, 1);
  const double growth = alternative_error_growth(dag, name);
  const Difference d = compare(arrays.back(), want, growth * allowed.rtol, growth * allowed.atol);
  return d.ok() ? "" : name + ": " + describe(d, arrays.back());
}

/// All rewrites of `y` by the rule are right; how many there are.
int check(const Tensor& y, const std::string& rule) {
  const std::vector<std::string> names = rewrites(ComputeDag({y}), rule);
  for (const std::string& name : names) EXPECT_EQ(wrong(y, name), "");
  return static_cast<int>(names.size());
}

Tensor product(int64_t m, int64_t n, int64_t k, DataType t = f32, bool epilogue = false,
               bool producer = false) {
  Tensor a = placeholder({m, k}, t, "a");
  if (producer) a = ops::relu(a);
  const Tensor y = ops::matmul(a, constant_placeholder({k, n}, t, "b"));
  return epilogue ? ops::relu(ops::add(y, placeholder({n}, y.dtype(), "bias"))) : y;
}

TEST(SplitK, PartsOfAnyNumberAreRight) {
  Rng rng(1);
  for (int i = 0; i < 8; ++i) {
    const int64_t m = rng.uniform_int(1, 9), n = rng.uniform_int(8, 40),
                  k = rng.uniform_int(1024, 3000);
    const Tensor y =
        product(m, n, k, rng.uniform_int(0, 3) == 0 ? i32 : f32, i % 2 == 0, i % 3 == 0);
    EXPECT_GE(check(y, "split_k"), m > 1 ? 1 : 0);
    for (const int64_t parts : {2, 3, 7, 13})
      EXPECT_EQ(wrong(y, "split_k(parts=" + std::to_string(parts) + ")@" +
                             rewrites(ComputeDag({y}), "split_k")[0].substr(
                                 rewrites(ComputeDag({y}), "split_k")[0].find('@') + 1)),
                "");
  }
}

TEST(DepthInnermost, EveryLayoutIsRight) {
  EXPECT_EQ(check(product(17, 127, 131), "depth_innermost"), 1);
  EXPECT_EQ(check(product(16, 24, 64, f64, true, true), "depth_innermost"), 1);
  const Tensor a = placeholder({3, 47, 31}), b = placeholder({3, 47, 61});
  EXPECT_EQ(check(ops::matmul(a, b, true, false), "depth_innermost"), 1);
  EXPECT_EQ(
      check(ops::matmul(placeholder({40, 6}), placeholder({9, 40}), true, true), "depth_innermost"),
      1);
  EXPECT_EQ(check(ops::matmul(placeholder({6, 40}), placeholder({9, 40}), false, true),
                  "depth_innermost"),
            0);
}

TEST(PadProduct, CropsWhatItAdds) {
  Rng rng(2);
  int drawn = 0;
  for (int i = 0; i < 8; ++i) {
    const int64_t m = rng.uniform_int(1, 40), n = rng.uniform_int(8, 75),
                  k = rng.uniform_int(9, 90);
    drawn += check(product(m, n, k, i % 4 == 3 ? f64 : f32, i % 2 == 0, i % 3 == 0), "pad_product");
  }
  EXPECT_GE(drawn, 3);
  EXPECT_GE(check(product(17, 127, 131), "pad_product"), 1);
  // A batch, and an operand that is read across.
  const Tensor y = ops::matmul(placeholder({3, 31, 47}), placeholder({3, 61, 47}), false, true);
  EXPECT_GE(check(y, "pad_product"), 1);
}

TEST(PadProduct, FewChannelsOfAConvolutionGrowByMore) {
  const Tensor x = placeholder({2, 9, 8, 3}, f32, "x"), w = placeholder({3, 3, 3, 5}, f32, "w");
  const Tensor y = ops::conv2d(x, w, {.layout = ops::NHWC});
  const std::string at = "@" + std::to_string(ComputeDag({y}).index_of(y.op()));
  EXPECT_EQ(wrong(y, "pad_product(to=4)" + at), "");
  EXPECT_THROW(wrong(y, "pad_product(to=16)" + at), Error);
}

TEST(PadProduct, ColoursInBytesAreAGroupOfFour) {
  const Tensor x = placeholder({1, 9, 8, 3}, u8, "x"),
               w = constant_placeholder({3, 3, 3, 5}, i8, "w");
  const Tensor y = ops::conv2d(x, w, {.layout = ops::NHWC});
  const std::string at = "@" + std::to_string(ComputeDag({y}).index_of(y.op()));
  EXPECT_EQ(wrong(y, "pad_product(to=4)" + at), "");
  const auto chosen = [&](const char* target) {
    return std::string(create_schedule({y}, Target::parse(target)).dag().alternative());
  };
  EXPECT_EQ(chosen("llvm -mcpu=znver5 -threads=1"), "pad_product(to=4)" + at);
  EXPECT_EQ(chosen("llvm -mcpu=haswell -threads=1"), "") << "no instruction adds up four";
}

TEST(PadProduct, NothingThatIsNoNumberComesOfZeros) {
  const Tensor a = placeholder({4, 31}, f32, "a"), b = placeholder({31, 33}, f32, "b");
  const Tensor y = ops::matmul(a, b);
  const ComputeDag dag({y});
  const std::string name = rewrites(dag, "pad_product").at(0);
  const Template t = make_template(apply_alternative(dag, name), Target::host());
  Kernel kernel = build(t.instantiate(t.default_config()), {a, b, y});
  std::vector<NDArray> arrays{NDArray::full({4, 31}, f32, 1), NDArray::full({31, 33}, f32, 1),
                              NDArray::zeros({4, 33}, f32)};
  arrays[0].set(30, INFINITY);  // the last term of the first row
  kernel.call(arrays);
  for (int64_t j = 0; j < 33; ++j) {
    EXPECT_EQ(arrays[2].get(j), INFINITY);
    EXPECT_EQ(arrays[2].get(33 + j), 31);
  }
}

Tensor convolution(Rng& rng, ops::Layout layout, DataType t, bool epilogue) {
  ops::Conv at;
  at.layout = layout;
  at.stride = {rng.uniform_int(1, 2), rng.uniform_int(1, 2)};
  at.padding = {rng.uniform_int(0, 2), rng.uniform_int(0, 1)};
  at.dilation = {rng.uniform_int(1, 2), 1};
  const int64_t n = rng.uniform_int(1, 2), c = rng.uniform_int(1, 20),
                k = 16 * rng.uniform_int(1, 2) + (epilogue ? 0 : rng.uniform_int(0, 5));
  const int64_t r = rng.uniform_int(1, 3), s = rng.uniform_int(2, 5), h = rng.uniform_int(7, 14),
                w = rng.uniform_int(9, 15);
  const bool last = layout == ops::NHWC;
  const Tensor x = placeholder(last ? Shape{n, h, w, c} : Shape{n, c, h, w}, t, "x");
  const Tensor f = constant_placeholder(last ? Shape{r, s, c, k} : Shape{k, c, r, s}, t, "w");
  const Tensor y = ops::conv2d(x, f, at, epilogue ? placeholder({k}, t, "b") : Tensor());
  return epilogue ? ops::relu(y) : y;
}

TEST(ImplicitGemm, IsRightForConvolutionsOfBothLayouts) {
  Rng rng(3);
  for (int i = 0; i < 10; ++i) {
    const DataType t = i == 4 ? bf16 : i == 5 ? i8 : f32;
    EXPECT_EQ(
        check(convolution(rng, i % 2 == 0 ? ops::NHWC : ops::NCHW, t, i % 4 < 2), "implicit_gemm"),
        2)
        << "as one sum and as three";
  }
}

// As the gradient of an image reads the gradient of the results.
TEST(Convolutions, WhoseWindowsRunBackwardsAreRight) {
  const Tensor x = placeholder({2, 9, 7, 8}, f32, "x"), w = placeholder({5, 8, 3, 3}, f32, "w");
  const Axis c = reduce_axis(8, "c"), r = reduce_axis(3, "r"), s = reduce_axis(3, "s");
  const auto both = [&](bool rows, bool columns) {
    return compute({2, 5, 7, 5}, [&](Axis n, Axis k, Axis i, Axis j) {
      const Expr y = rows ? i + 2 - r : Expr(i + r), at = columns ? j + 2 - s : Expr(j + s);
      return sum(x(n, y, at, c) * w(k, c, r, s), {c, r, s});
    });
  };
  for (const bool rows : {false, true}) {
    EXPECT_GE(check(both(rows, true), "winograd"), 2);
    EXPECT_GE(check(both(rows, true), "implicit_gemm"), 1);
  }
}

/// A convolution of 2 to 6 groups with few channels each.
Tensor grouped(Rng& rng, ops::Layout layout, DataType t, bool constant, bool epilogue) {
  ops::Conv at;
  at.layout = layout;
  at.groups = 2 * rng.uniform_int(1, 3);
  at.stride = {rng.uniform_int(1, 2), 1};
  at.padding = {rng.uniform_int(0, 1), 1};
  const int64_t c = rng.uniform_int(1, 5), k = at.groups * rng.uniform_int(2, 5);
  const bool last = layout == ops::NHWC;
  const int64_t all = c * at.groups;
  const Tensor x = placeholder(last ? Shape{2, 7, 9, all} : Shape{2, all, 7, 9}, t, "x");
  const Shape shape = last ? Shape{3, 3, c, k} : Shape{k, c, 3, 3};
  const Tensor f = constant ? constant_placeholder(shape, t, "w") : placeholder(shape, t, "w");
  const Tensor y = ops::conv2d(x, f, at, epilogue ? placeholder({k}, t, "b") : Tensor());
  return epilogue ? ops::relu(y) : y;
}

TEST(PackGroups, IsRightForConvolutionsOfBothLayouts) {
  Rng rng(8);
  for (int i = 0; i < 8; ++i) {
    const DataType t = i == 3 ? f16 : i == 5 ? i8 : f32;
    const Tensor y =
        grouped(rng, i % 2 == 0 ? ops::NHWC : ops::NCHW, t, i % 3 != 0, i % 4 < 2 && t == f32);
    EXPECT_GE(check(y, "pack_groups"), 1) << i;
  }
}

TEST(PackGroups, IsForGroupsOfSeveralResults) {
  const ops::Conv two{.groups = 2, .layout = ops::NHWC};
  const auto images = [](int64_t c) { return placeholder({1, 5, 5, c}, f32, "x"); };
  const auto filter = [](int64_t c, int64_t k) { return placeholder({3, 3, c, k}, f32, "w"); };
  EXPECT_EQ(check(ops::conv2d(images(6), filter(3, 8), two), "pack_groups"), 1);
  EXPECT_EQ(check(ops::conv2d(images(6), filter(6, 8), {.layout = ops::NHWC}), "pack_groups"), 0);
  EXPECT_EQ(
      check(ops::depthwise_conv2d(images(6), filter(1, 6), {.layout = ops::NHWC}), "pack_groups"),
      0);
}

// ---- one_pass_softmax --------------------------------------------------------------------------

Tensor log_sum_exp(const Tensor& x, int axis) {
  const Tensor highest = ops::max(x, {axis}, true);
  return ops::add(ops::log(ops::sum(ops::exp(ops::sub(x, highest)), {axis}, true)), highest);
}

TEST(OnePassSoftmax, RowsAndColumnsOfAnyLengthAreRight) {
  Rng rng(7);
  for (int i = 0; i < 6; ++i) {
    const int64_t rows = rng.uniform_int(1, 40), cols = rng.uniform_int(1, 300);
    const DataType t = std::array{f32, f64, f16}[static_cast<size_t>(i % 3)];
    const Tensor x = placeholder({rows, cols}, t, "x");
    for (const int axis : {0, 1}) {
      EXPECT_EQ(check(ops::softmax(x, axis), "one_pass_softmax"), 1);
      EXPECT_EQ(check(ops::log_softmax(ops::relu(x), axis), "one_pass_softmax"), 1);
      if (t == f16) continue;
      EXPECT_EQ(check(ops::relu(log_sum_exp(x, axis)), "one_pass_softmax"), 1);
    }
  }
  EXPECT_EQ(check(ops::softmax(placeholder({3, 5, 70})), "one_pass_softmax"), 1);
  const Tensor q = placeholder({4, 9, 16}), mask = placeholder({9, 9}, boolean, "mask");
  EXPECT_EQ(check(ops::scaled_dot_product_attention(q, q, q, mask), "one_pass_softmax"), 1);
}

TEST(OnePassSoftmax, IsNotOfferedForOtherSums) {
  const Tensor x = placeholder({20, 100}), z = placeholder({20, 100}, f32, "z");
  const auto total = [&](const Tensor& of, const Tensor& highest) {
    return ops::sum(ops::exp(ops::sub(of, highest)), {1}, true);
  };
  EXPECT_EQ(check(ops::sum(ops::exp(x), {1}), "one_pass_softmax"), 0) << "no maximum";
  EXPECT_EQ(check(total(z, ops::max(x, {1}, true)), "one_pass_softmax"), 0) << "of other values";
  EXPECT_EQ(check(total(x, ops::max(x, {0}, true)), "one_pass_softmax"), 0) << "of other rows";
  EXPECT_EQ(check(total(x, ops::max(ops::mul(x, x), {1}, true)), "one_pass_softmax"), 0);
  EXPECT_EQ(check(total(x, ops::min(x, {1}, true)), "one_pass_softmax"), 0) << "a minimum";
}

TEST(OnePassSoftmax, OutputsAndOtherReadersOfBothAreServed) {
  const Tensor x = placeholder({12, 90});
  const Tensor highest = ops::max(x, {1}, true);
  const Tensor total = ops::sum(ops::exp(ops::sub(x, highest)), {1}, true);
  const std::vector<Tensor> outputs{highest, total, ops::sub(x, highest)};
  const ComputeDag dag(outputs);
  const std::string name = rewrites(dag, "one_pass_softmax").at(0);
  const Template t = make_template(apply_alternative(dag, name), Target::host());
  const std::vector<NDArray> arrays = call_arrays(dag);
  build(t.instantiate(t.default_config()), all_args(dag)).call(arrays);
  EXPECT_EQ(differs(dag, arrays), "");
}

/// The results of the declaration and of its rewrite in one pass.
std::array<NDArray, 2> with_and_without(const Tensor& y, const NDArray& x) {
  const ComputeDag dag({y});
  std::array<NDArray, 2> out;
  for (const int i : {0, 1}) {
    const std::string name = i == 0 ? "" : rewrites(dag, "one_pass_softmax").at(0);
    const Template t = make_template(apply_alternative(dag, name), Target::host());
    out[static_cast<size_t>(i)] = NDArray::zeros(y.extents(), f32);
    build(t.instantiate(t.default_config()), {dag.placeholders()[0], y})
        .call(std::vector<NDArray>{x, out[static_cast<size_t>(i)]});
  }
  return out;
}

TEST(OnePassSoftmax, InfinitiesAndNaNsGiveWhatTheDeclarationGives) {
  constexpr int64_t kRows = 7, kCols = 83;
  const float inf = std::numeric_limits<float>::infinity();
  NDArray x = NDArray::zeros({kRows, kCols}, f32);
  Rng rng(8);
  for (int64_t i = 0; i < kRows * kCols; ++i) x.set(i, rng.uniform_real(-3, 3));
  for (int64_t j = 0; j < kCols; ++j) {
    if (j % 2 == 0) x.set(j, -inf);                              // masked elements
    x.set(kCols + j, -inf);                                      // a masked row
    if (j < kCols - 1) x.set(2 * kCols + j, -inf);               // all but one
    x.set(3 * kCols + j, std::numeric_limits<float>::lowest());  // a row masked by a number
    if (j > 3) x.set(4 * kCols + j, -1e30);
  }
  x.set(5 * kCols + 40, inf);
  x.set(6 * kCols + 40, std::numeric_limits<float>::quiet_NaN());
  const Tensor p = placeholder({kRows, kCols}, f32, "x");
  for (const Tensor& y : {ops::softmax(p), ops::log_softmax(p), log_sum_exp(p, 1)}) {
    const auto [want, got] = with_and_without(y, x);
    EXPECT_FALSE(std::isnan(want.get(0))) << "masked elements do no harm";
    EXPECT_TRUE(std::isnan(want.get(want.size() / kRows))) << "masked rows have no sum";
    for (int64_t i = 0; i < want.size(); ++i) {
      const double a = want.get(i), b = got.get(i);
      EXPECT_TRUE(std::isnan(a) ? std::isnan(b)
                                : a == b || std::fabs(a - b) <= 1e-5 + 1e-5 * std::fabs(a))
          << y.name() << " " << i << ": " << a << ", in one pass " << b;
    }
  }
}

TEST(OnePassSoftmax, IsChosenForRowsThatNoCacheKeeps) {
  Target cpu = Target::parse("llvm -mcpu=znver3");
  cpu.cores = 2;
  const auto chosen = [](const Tensor& y, const Target& t) {
    return choose_alternative(ComputeDag({y}), t, {});
  };
  const Tensor longs = ops::softmax(placeholder({4, 1 << 20})),
               shorts = ops::softmax(placeholder({4096, 1000}));
  EXPECT_TRUE(chosen(longs, cpu).starts_with("one_pass_softmax@"));
  EXPECT_EQ(chosen(shorts, cpu), "");
  EXPECT_TRUE(
      chosen(ops::softmax(placeholder({4096, 4096}), 0), cpu).starts_with("one_pass_softmax@"));
  EXPECT_EQ(chosen(ops::softmax(placeholder({4, 1 << 22}), 0), cpu), "") << "of four elements";
  const auto judged = [](const Tensor& y, const Target& t) {
    for (const Alternative& a : alternatives_of(ComputeDag({y}), t, {})) {
      if (a.name.starts_with("one_pass_softmax")) return a.why_not;
    }
    return std::string("not offered");
  };
  EXPECT_NE(judged(shorts, cpu).find("first cache"), std::string::npos);
  EXPECT_EQ(judged(longs, Target::parse("cuda -gpu=a100")), "");
  EXPECT_NE(judged(shorts, Target::parse("cuda -gpu=a100")).find("registers"), std::string::npos);
}

}  // namespace
}  // namespace heddle::testing
