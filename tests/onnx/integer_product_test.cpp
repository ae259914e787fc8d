// Quantised convolutions against plain loops: every way to write the zero points of a file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/support/rng.h"
#include "onnx/model_builder.h"

namespace heddle::testing {
namespace {

constexpr int kU8 = 2, kI8 = 3, kI32 = 6;
constexpr int64_t kSide = 5, kChannels = 4;
constexpr float kScaleX = 0.05F, kScaleY = 0.7F;

struct Problem {
  int64_t groups = 1;
  bool signed_x = false, signed_w = true;
  int64_t x_zero = 3, w_zero = 0, y_zero = 100;
  bool known_zero = true;  ///< whether the file has the zero point of x
};

template <class T>
std::vector<T> drawn(Rng& rng, int64_t count, int64_t lo, int64_t hi) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(rng.uniform_int(lo, hi)));
  return values;
}

std::string bytes_of(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t v : values) bytes += static_cast<char>(v);
  return bytes;
}

class QuantizedConvolution {
 public:
  explicit QuantizedConvolution(const Problem& p) : p_(p), per_group_(kChannels / p.groups) {
    Rng rng(7);
    x_ = drawn<int64_t>(rng, kChannels * kSide * kSide, p.signed_x ? -128 : 0,
                        p.signed_x ? 127 : 255);
    w_ = drawn<int64_t>(rng, kChannels * per_group_ * 9, p.signed_w ? -128 : 0,
                        p.signed_w ? 127 : 255);
    bias_ = drawn<int32_t>(rng, kChannels, -3000, 3000);
    for (int64_t k = 0; k < kChannels; ++k) scale_w_.push_back(0.01F * static_cast<float>(k + 1));
  }

  ModelParts model() const {
    const int x = p_.signed_x ? kI8 : kU8, w = p_.signed_w ? kI8 : kU8;
    ModelParts m;
    m.inputs = {value_info("x", {"1", "4", "5", "5"}, x)};
    m.outputs = {value_info("y", {"1", "4", "5", "6"}, kU8)};
    m.initializers = {tensor("sx", {}, std::vector<float>{kScaleX}),
                      tensor("sw", {kChannels}, scale_w_),
                      tensor("sy", {}, std::vector<float>{kScaleY}),
                      tensor_header("w", w, {kChannels, per_group_, 3, 3}).text(9, bytes_of(w_)),
                      tensor_header("zw", w, {kChannels})
                          .text(9, bytes_of(std::vector<int64_t>(kChannels, p_.w_zero))),
                      tensor_header("zy", kU8, {}).text(9, bytes_of({p_.y_zero})),
                      tensor_header("b", kI32, {kChannels}).text(9, raw(bias_))};
    if (p_.known_zero)
      m.initializers.push_back(tensor_header("zx", x, {}).text(9, bytes_of({p_.x_zero})));
    else
      m.inputs.push_back(value_info("zx", {}, x));
    m.nodes = {
        node("conv", "QLinearConv", {"x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"}, {"y"},
             {attribute("pads", std::vector<int64_t>{1, 2, 1, 1}), attribute("group", p_.groups)})};
    return m;
  }

  /// The same with floats between pairs of conversions, as most tools write it.
  ModelParts pairs() const {
    ModelParts m = model();
    std::vector<float> bias_scales;
    for (const float s : scale_w_) bias_scales.push_back(kScaleX * s);
    m.initializers.push_back(tensor("sb", {kChannels}, bias_scales));
    const auto along_channels = attribute("axis", int64_t{0});
    m.nodes = {
        node("dx", "DequantizeLinear", {"x", "sx", "zx"}, {"fx"}),
        node("dw", "DequantizeLinear", {"w", "sw", "zw"}, {"fw"}, {along_channels}),
        node("db", "DequantizeLinear", {"b", "sb"}, {"fb"}, {along_channels}),
        node("conv", "Conv", {"fx", "fw", "fb"}, {"fy"},
             {attribute("pads", std::vector<int64_t>{1, 2, 1, 1}), attribute("group", p_.groups)}),
        node("q", "QuantizeLinear", {"fy", "sy", "zy"}, {"y"})};
    return m;
  }

  std::vector<NDArray> inputs() const {
    const DataType type = p_.signed_x ? i8 : u8;
    const NDArray x = NDArray::empty({1, kChannels, kSide, kSide}, type);
    const std::string bytes = bytes_of(x_);
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(x.data()));
    std::vector<NDArray> all{x};
    if (!p_.known_zero) all.push_back(NDArray::full({}, type, static_cast<double>(p_.x_zero)));
    return all;
  }

  uint8_t at(int64_t k, int64_t y, int64_t x) const {
    int32_t sum = bias_[static_cast<size_t>(k)];
    const int64_t first = k / per_group_ * per_group_;
    for (int64_t c = 0; c < per_group_; ++c) {
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t s = 0; s < 3; ++s) {
          const int64_t row = y + r - 1, column = x + s - 2;
          if (row < 0 || row >= kSide || column < 0 || column >= kSide) continue;
          const size_t i = static_cast<size_t>(((first + c) * kSide + row) * kSide + column);
          const size_t j = static_cast<size_t>(((k * per_group_ + c) * 3 + r) * 3 + s);
          sum += static_cast<int32_t>((x_[i] - p_.x_zero) * (w_[j] - p_.w_zero));
        }
      }
    }
    const float factor = kScaleX * scale_w_[static_cast<size_t>(k)] / kScaleY;
    const float value =
        std::nearbyint(static_cast<float>(sum) * factor) + static_cast<float>(p_.y_zero);
    return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F));
  }

 private:
  Problem p_;
  int64_t per_group_;
  std::vector<int64_t> x_, w_;
  std::vector<int32_t> bias_;
  std::vector<float> scale_w_;
};

void expect_exact(const QuantizedConvolution& problem, const NDArray& result) {
  ASSERT_EQ(result.dtype(), u8);
  ASSERT_EQ(result.size(), kChannels * 5 * 6);
  for (int64_t k = 0; k < kChannels; ++k) {
    for (int64_t y = 0; y < 5; ++y) {
      for (int64_t x = 0; x < 6; ++x)
        ASSERT_EQ(result.get((k * 5 + y) * 6 + x), problem.at(k, y, x))
            << k << " " << y << " " << x;
    }
  }
}

TEST(OnnxIntegerProducts, AQuantizedConvolutionIsExactWhateverItsZeroPoints) {
  const Problem problems[] = {
      {},
      {.groups = 2},
      {.groups = 4, .x_zero = 128},
      {.signed_x = true, .x_zero = -5},
      {.signed_w = false, .w_zero = 128},
      {.groups = 4, .signed_w = false, .w_zero = 17},  // not all weights fit into a signed byte
      {.x_zero = 0},
      {.groups = 2, .x_zero = 9, .known_zero = false},
  };
  for (const Problem& p : problems) {
    SCOPED_TRACE(&p - problems);
    const QuantizedConvolution problem(p);
    const ModelFolder folder("quantized");
    const OnnxModel model = import_onnx(folder.write("m.onnx", model_bytes(problem.model())));
    const std::vector<NDArray> inputs = problem.inputs();
    std::vector<TensorValue> known;
    for (size_t i = 0; i < inputs.size(); ++i) known.push_back({model.inputs[i], inputs[i]});
    expect_exact(problem, interpret(model.outputs, known)[0]);

    const NDArray result = NDArray::zeros({1, kChannels, 5, 6}, u8);
    Network(model.outputs).build(model.args()).call(model.arrays(inputs, {result}));
    expect_exact(problem, result);
  }
}

TEST(OnnxIntegerProducts, ZeroPointsOfRowsTimesAVector) {
  ModelParts m;
  m.inputs = {value_info("a", {"2", "3"}, kU8), value_info("b", {"3"}, kI8)};
  m.outputs = {value_info("y", {"2"}, kI32)};
  m.initializers = {tensor_header("za", kU8, {2}).text(9, bytes_of({1, 4}))};
  m.nodes = {node("product", "MatMulInteger", {"a", "b", "za"}, {"y"})};
  const ModelFolder folder("rows");
  const OnnxModel model = import_onnx(folder.write("m.onnx", model_bytes(m)));
  const NDArray a = NDArray::from(std::vector<uint8_t>{1, 2, 3, 4, 5, 7}, {2, 3}),
                b = NDArray::from(std::vector<int8_t>{-1, 2, 5});
  const NDArray y = interpret(model.outputs, {{model.inputs[0], a}, {model.inputs[1], b}})[0];
  EXPECT_EQ(y.shape(), std::vector<int64_t>{2});
  EXPECT_EQ(y.get(0), -1 * 0 + 2 * 1 + 5 * 2);
  EXPECT_EQ(y.get(1), -1 * 0 + 2 * 1 + 5 * 3);
}

TEST(OnnxIntegerProducts, PairsOfConversionsAroundAConvolutionAreOneOfBytes) {
  const Problem problems[] = {{},
                              {.groups = 2, .x_zero = 128},
                              {.signed_x = true, .x_zero = -5},
                              {.groups = 4, .x_zero = 0},
                              {.x_zero = 9, .known_zero = false}};
  for (const Problem& p : problems) {
    SCOPED_TRACE(&p - problems);
    const QuantizedConvolution problem(p);
    const ModelFolder folder("pairs");
    const OnnxModel model = import_onnx(folder.write("m.onnx", model_bytes(problem.pairs())));
    const Network network(model.outputs);
    const bool in_bytes =
        std::any_of(network.passes().begin(), network.passes().end(),
                    [](const PassApplication& a) { return a.pass == "integer_products"; });
    EXPECT_TRUE(in_bytes);
    const NDArray result = NDArray::zeros({1, kChannels, 5, 6}, u8);
    network.build(model.args()).call(model.arrays(problem.inputs(), {result}));
    for (int64_t i = 0; i < result.size(); ++i)
      EXPECT_NEAR(result.get(i), problem.at(i / 30, i / 6 % 5, i % 6), 1) << i;
  }
}

}  // namespace
}  // namespace heddle::testing
