// Graphs that GPUs compute in place of a convolution or a product: Winograd's transforms, and three
// products of tf32 in place of one of f32. In the emulator, against the interpreter.
#include <cmath>
#include <limits>

#include "emulated_schedule.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/dag/alternatives.h"
#include "heddle/support/rng.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

AutoSchedulerOptions f32_options(bool alternatives = true) {
  AutoSchedulerOptions o;
  o.use_records = false;
  o.use_alternatives = alternatives;
  return o;
}

struct Image {
  int64_t n, h, w, c, k, pad;
  DataType type = f32;
  ops::Layout layout = ops::NHWC;
  int64_t r = 3;
};

selftest::RandomProgram convolution(const Image& i, bool constant = true) {
  selftest::RandomProgram p;
  ops::Conv at;
  at.padding = {i.pad};
  at.layout = i.layout;
  const bool last = i.layout == ops::NHWC;
  const Tensor x =
      placeholder(last ? Shape{i.n, i.h, i.w, i.c} : Shape{i.n, i.c, i.h, i.w}, i.type, "x");
  const Shape filter = last ? Shape{i.r, i.r, i.c, i.k} : Shape{i.k, i.c, i.r, i.r};
  const Tensor w =
      constant ? constant_placeholder(filter, i.type, "w") : placeholder(filter, i.type, "w");
  p.inputs = {x, w};
  p.outputs = {ops::relu(ops::conv2d(x, w, at))};
  p.text = std::to_string(i.n) + "x" + std::to_string(i.h) + "x" + std::to_string(i.w) + "x" +
           std::to_string(i.c) + " to " + std::to_string(i.k) + " " + to_string(i.type);
  return p;
}

std::string of_last_sum(const ComputeDag& dag, const std::string& rule) {
  for (int s = dag.size() - 1; s >= 0; --s) {
    if (dag.stage(s).is_reduction()) return rule + "@" + std::to_string(s);
  }
  return "";
}

Template graph(const selftest::RandomProgram& p, const std::string& rule) {
  const AutoSchedulerOptionsScope scope(f32_options());
  const ComputeDag dag(p.outputs);
  return make_template(apply_alternative(dag, of_last_sum(dag, rule)), h200());
}

/// Checks the default config of a graph, and some that are drawn. Returns the default's kernels.
std::string check_graph(const selftest::RandomProgram& p, const std::string& rule, Rng& rng,
                        int drawn = 1) {
  SCOPED_TRACE(p.text + ", " + rule);
  const Template t = graph(p, rule);
  std::string kernels = check_emulated(p, t.instantiate(t.default_config()));
  for (int tries = 0; drawn > 0 && tries < 200; ++tries) {
    Config c;
    for (const Knob& k : t.knobs()) c.values.push_back(rng.choose(k.values));
    if (!t.why_invalid(c).empty()) continue;
    SCOPED_TRACE(t.config_to_json(c).dump());
    check_emulated(p, t.instantiate(c));
    --drawn;
  }
  return kernels;
}

const std::string kWinograd[] = {"winograd(tile=2)", "winograd(tile=4)", "winograd_units(tile=2)",
                                 "winograd_units(tile=4)"};

TEST(WinogradOnGpus, EdgesAndOddChannels) {
  Rng rng(11);
  for (const Image& i : std::vector<Image>{{1, 8, 8, 8, 16, 1},
                                           {2, 9, 13, 7, 5, 1},
                                           {1, 3, 3, 4, 8, 0},
                                           {3, 5, 6, 12, 9, 2},
                                           {1, 9, 10, 16, 24, 1, f16},
                                           {1, 7, 6, 33, 8, 0, bf16},
                                           {1, 9, 13, 7, 5, 1, f32, ops::NCHW}}) {
    for (const std::string& rule : kWinograd) check_graph(convolution(i), rule, rng, 0);
  }
}

TEST(WinogradOnGpus, DrawnSizes) {
  Rng rng(12);
  for (int count = 0; count < 6; ++count) {
    const DataType type = rng.chance(0.5) ? f32 : f16;
    const Image i{rng.uniform_int(1, 3),
                  rng.uniform_int(3, 13),
                  rng.uniform_int(3, 13),
                  8 * rng.uniform_int(1, 8),
                  8 * rng.uniform_int(1, 8),
                  rng.uniform_int(0, 1),
                  type};
    check_graph(convolution(i, rng.chance(0.7)), kWinograd[rng.uniform_int(0, 3)], rng);
  }
}

// Tiles of 16 bits, and parts of f32, go to wgmma where there are many.
TEST(WinogradOnGpus, ProductsOfTilesAreForMatrixUnits) {
  for (const DataType type : {f16, f32}) {
    const selftest::RandomProgram p = convolution({4, 56, 56, 128, 128, 1, type});
    const Template t = graph(p, "winograd_units(tile=4)");
    const std::string text = to_string(lower_gpu(t.instantiate(t.default_config()), p.args()));
    EXPECT_THAT(text, HasSubstr("wgmma")) << to_string(type);
  }
}

TEST(WinogradOnGpus, AThreadComputesATileInRegisters) {
  for (const DataType type : {f32, f16}) {
    const selftest::RandomProgram p = convolution({2, 20, 20, 32, 32, 1, type});
    const Template t = graph(p, type == f16 ? "winograd_units(tile=4)" : "winograd(tile=4)");
    EXPECT_THAT(t.name(), HasSubstr("cuda_tile_transform"));
    const GpuProgram lowered = lower_gpu(t.instantiate(t.default_config()), p.args());
    EXPECT_EQ(lowered.main.size(), 3U) << "tiles with the padding, products, results";
  }
}

TEST(WinogradOnGpus, IsChosenWhereItPays) {
  const auto chosen = [](const Image& i, const char* target) {
    return choose_alternative(ComputeDag(convolution(i).outputs), Target::parse(target), {});
  };
  EXPECT_THAT(chosen({32, 28, 28, 256, 256, 1}, "cuda -gpu=h200"), HasSubstr("winograd"));
  EXPECT_THAT(chosen({32, 28, 28, 256, 256, 1}, "cuda -gpu=a100"), HasSubstr("winograd(tile=4)"));
  EXPECT_EQ(chosen({1, 9, 9, 32, 32, 1}, "cuda -gpu=h200"), "") << "transforms take longer";
  EXPECT_EQ(chosen({32, 56, 56, 64, 64, 1, f16}, "cuda -gpu=h200"), "")
      << "tiles would go through memory";
}

/// The first result of `rule` that is not finite, infinite or NaN as the interpreter's is, or is off
/// by more than `rtol` of it and `atol`; "" where there is none.
std::string first_other(const selftest::RandomProgram& p, const std::string& rule,
                        const std::vector<NDArray>& inputs, double rtol, double atol) {
  const Template t = graph(p, rule);
  const NDArray want =
      interpret(p.outputs, {{p.inputs[0], inputs[0]}, {p.inputs[1], inputs[1]}}).at(0);
  const NDArray got = NDArray::full(want.shape(), want.dtype(), 77);
  selftest::emulated(5)(t.instantiate(t.default_config()), p.args(), {inputs[0], inputs[1], got});
  for (int64_t i = 0; i < want.size(); ++i) {
    const double w = want.get(i), g = got.get(i);
    if (std::isnan(w) ? std::isnan(g) : g == w || std::abs(g - w) <= rtol * std::abs(w) + atol)
      continue;
    return rule + ", result " + std::to_string(i) + ": " + std::to_string(g) + ", expected " +
           std::to_string(w);
  }
  return "";
}

// Transformed elements of an image are up to 20 times as large, which is beyond f16.
TEST(WinogradOnGpus, TilesOfLargeImagesInF16AreFinite) {
  const selftest::RandomProgram p = convolution({1, 10, 10, 16, 16, 1, f16}, false);
  const std::vector<NDArray> inputs = selftest::random_inputs(p, 4);
  for (int64_t i = 0; i < inputs[0].size(); ++i)
    inputs[0].set(i, (i / 16 + i / 160) % 2 == 0 ? 6e4 : -6e4);
  for (int64_t i = 0; i < inputs[1].size(); ++i) inputs[1].set(i, 1e-3 * inputs[1].get(i));
  for (const char* rule : {"winograd_units(tile=2)", "winograd_units(tile=4)"})
    EXPECT_EQ(first_other(p, rule, inputs, 0.02, 10), "") << "of sums of up to 1000";
}

// ---- products of f32 as products of tf32 ---------------------------------------------------------

TEST(SplitTf32, DrawnProducts) {
  Rng rng(21);
  for (int count = 0; count < 8; ++count) {
    const bool turned = rng.chance(0.5);
    const int64_t batch = rng.chance(0.3) ? rng.uniform_int(2, 3) : 0;
    const selftest::RandomProgram p =
        product(f32, rng.uniform_int(17, 150), rng.uniform_int(8, 140), rng.uniform_int(8, 200),
                batch, turned);
    check_graph(p, "split_tf32", rng);
  }
}

TEST(SplitTf32, Convolutions) {
  Rng rng(22);
  for (const Image& i : std::vector<Image>{{1, 9, 10, 32, 24, 1},
                                           {2, 7, 7, 20, 16, 0},
                                           {1, 8, 9, 5, 33, 2, f32, ops::NHWC, 5},
                                           {2, 6, 6, 40, 16, 0, f32, ops::NHWC, 1},
                                           {1, 9, 8, 12, 16, 1, f32, ops::NCHW}})
    check_graph(convolution(i), "split_tf32", rng);
}

TEST(SplitTf32, GoesToWgmmaWithSumsOfTilesInF32) {
  Rng rng(23);
  const std::string text = check_graph(product(f32, 300, 260, 136), "split_tf32", rng, 0);
  EXPECT_THAT(text, HasSubstr("wgmma.m64n"));
  EXPECT_THAT(text, HasSubstr(".part")) << "each tile is added to the sums in f32";
  EXPECT_THAT(text, HasSubstr("round_tf32"));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMost = std::numeric_limits<float>::max();
const double kExtremes[] = {kInfinity, -kInfinity, std::nan(""), kMost, -kMost, 0};

// Extreme elements give what multiply-adds give of them, beside zeros, small and large numbers.
TEST(SplitTf32, ProductsOfExtremeNumbers) {
  constexpr int64_t kRows = 24, kCols = 32, kDepth = 40;
  const selftest::RandomProgram p = product(f32, kRows, kCols, kDepth);
  for (const bool swapped : {false, true}) {
    for (const double extreme : kExtremes) {
      const std::vector<NDArray> inputs = selftest::random_inputs(p, 6);
      const NDArray &with = inputs[swapped ? 1 : 0], &by = inputs[swapped ? 0 : 1];
      // Rows with one extreme element, at different places of the depth.
      for (int64_t i = 0; i < 20; ++i) with.set(i * kDepth + i * 3 % kDepth, extreme);
      for (int64_t d = 0; d < kDepth; ++d) {
        by.set(d, 0);
        by.set(kDepth + d, 1e-30);
        by.set(2 * kDepth + d, -0.7);
        // Numbers whose rests have the other sign.
        by.set(3 * kDepth + d, std::isinf(extreme) ? 99999 : 0.9999);
        by.set(4 * kDepth + d, std::isinf(extreme) ? -1e36 : 1);
        by.set(5 * kDepth + d, kInfinity);
      }
      EXPECT_EQ(first_other(p, "split_tf32", inputs, 1e-5, 1e-4), "")
          << extreme << (swapped ? " on the right" : " on the left");
    }
  }
}

TEST(SplitTf32, ConvolutionsOfExtremeNumbers) {
  const selftest::RandomProgram p = convolution({1, 6, 6, 20, 16, 1}, false);
  for (const double extreme : kExtremes) {
    const std::vector<NDArray> inputs = selftest::random_inputs(p, 7);
    for (const int64_t pixel : {0, 3, 20, 35}) inputs[0].set(pixel * 20 + pixel % 20, extreme);
    for (int64_t i = 0; i < inputs[1].size(); ++i)
      inputs[1].set(i, i % 16 == 0 ? 0 : 0.02 * inputs[1].get(i));
    EXPECT_EQ(first_other(p, "split_tf32", inputs, 1e-5, 1e-4), "") << extreme;
  }
}

/// The root mean square of the errors of `s` against sums in f64.
double error_of(const selftest::RandomProgram& p, const Schedule& s, int64_t m, int64_t n,
                int64_t k) {
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  double squares = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < k; ++d) sum += arrays[0].get(i * k + d) * arrays[1].get(j * k + d);
      const double by = arrays[2].get(i * n + j) - sum;
      squares += by * by;
    }
  }
  return std::sqrt(squares / static_cast<double>(m * n));
}

// What the rule says of its errors is what they are: the default policy rests on it.
TEST(SplitTf32, ItsErrorsGrowAsTheRuleSays) {
  for (const int64_t k : {16, 96, 640}) {
    const selftest::RandomProgram p = product(f32, 40, 48, k);
    const ComputeDag dag(p.outputs);
    const AutoSchedulerOptionsScope scope(f32_options(false));
    const Template direct = make_template(dag, h200()), split = graph(p, "split_tf32");
    const double base = error_of(p, direct.instantiate(direct.default_config()), 40, 48, k),
                 error = error_of(p, split.instantiate(split.default_config()), 40, 48, k);
    EXPECT_LT(error, 1.3 * alternative_error_growth(dag, of_last_sum(dag, "split_tf32")) * base)
        << k << " terms: " << error << " and " << base;
  }
}

TEST(SplitTf32, IsChosenForLargeProductsOnHopperUnlessTf32Serves) {
  const auto chosen = [](const selftest::RandomProgram& p, const char* target, bool allow_tf32) {
    AutoSchedulerOptions o = f32_options();
    o.allow_tf32 = allow_tf32;
    const AutoSchedulerOptionsScope scope(o);
    return make_static_template(ComputeDag(p.outputs), Target::parse(target), o)
        .dag()
        .alternative();
  };
  const selftest::RandomProgram large = product(f32, 2048, 2048, 2048);
  EXPECT_THAT(chosen(large, "cuda -gpu=h200", false), HasSubstr("split_tf32"));
  EXPECT_EQ(chosen(large, "cuda -gpu=h200", true), "");
  EXPECT_EQ(chosen(large, "cuda -gpu=a100", false), "") << "no registers add up tiles of mma.sync";
  EXPECT_EQ(chosen(product(f32, 256, 256, 256), "cuda -gpu=h200", false), "") << "copies cost more";
  const auto weights = [&](int64_t n) {
    selftest::RandomProgram p = product(f32, 2048, n, 8192);
    p.inputs[1] = constant_placeholder({n, 8192}, f32, "B");
    p.outputs = {ops::matmul(p.inputs[0], p.inputs[1], false, true)};
    return chosen(p, "cuda -gpu=h200", false);
  };
  EXPECT_THAT(weights(7000), HasSubstr("split_tf32"));
  EXPECT_EQ(weights(8192), "") << "parts of the weights take 800 MB";
}

}  // namespace
}  // namespace heddle::testing
