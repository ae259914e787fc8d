// Random quantised networks: what is computed in integers equals what the interpreter computes in f32, f16 or
// bf16, bit for bit. All scales are powers of two and all sums stay below 2^24, so no operation on f32 rounds, and the
// order of sums and multiply-adds make no difference; and what a byte stands for is a number of all three types.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "environment.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "onnx/file/graph.h"
#include "onnx/model_builder.h"

namespace heddle {
namespace {

using testing::attribute;
using testing::node;
using testing::value_info;

constexpr int kUint8 = 2, kInt8 = 3, kInt32 = 6;

/// An image of bytes, of one sample.
struct Bytes {
  std::string name, scale, zero;
  int64_t channels = 0, size = 0;
};

class RandomNetwork {
 public:
  explicit RandomNetwork(uint32_t seed) : random_(seed) {
    parts_.inputs = {value_info("x", {"1", std::to_string(kChannels), "8", "8"})};
    stages_.push_back(quantized("x", kChannels, 8));
    const int count = pick(3, 7);
    for (int i = 0; i < count; ++i) add_stage();
    // Every result that nothing reads is an output, in f32 or as bytes.
    for (const Bytes& b : stages_) {
      if (b.name == stages_.back().name || one_in(3)) output(b);
    }
  }

  std::string bytes() const { return testing::model_bytes(parts_); }

 private:
  static constexpr int64_t kChannels = 6;

  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  bool one_in(int n) { return pick(1, n) == 1; }
  const Bytes& any() {
    return stages_[static_cast<size_t>(pick(0, static_cast<int>(stages_.size()) - 1))];
  }
  std::string fresh(const std::string& what) { return what + std::to_string(names_++); }

  std::string floats(const std::vector<float>& values, const std::vector<int64_t>& dims) {
    const std::string name = fresh("f");
    parts_.initializers.push_back(testing::tensor(name, dims, values));
    return name;
  }
  template <class T>
  std::string integers(int type, const std::vector<T>& values, const std::vector<int64_t>& dims) {
    const std::string name = fresh("i");
    parts_.initializers.push_back(
        testing::tensor_header(name, type, dims).text(9, testing::raw(values)));
    return name;
  }
  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<onnx::Message>& attributes = {}) {
    const std::string result = fresh("t");
    parts_.nodes.push_back(node(fresh("n"), op, inputs, {result}, attributes));
    return result;
  }

  Bytes quantized(const std::string& real, int64_t channels, int64_t size) {
    Bytes b;
    b.channels = channels;
    b.size = size;
    const bool is_signed = one_in(3);
    const int zero = one_in(3) ? 0 : pick(0, 200);
    b.scale = floats({std::ldexp(1.0F, -pick(3, 5))}, {});
    b.zero = is_signed ? integers(kInt8, std::vector<int8_t>{static_cast<int8_t>(zero - 100)}, {})
                       : integers(kUint8, std::vector<uint8_t>{static_cast<uint8_t>(zero)}, {});
    b.name = add("QuantizeLinear", {real, b.scale, b.zero});
    return b;
  }
  std::string real(const Bytes& b) { return add("DequantizeLinear", {b.name, b.scale, b.zero}); }

  /// Weights of i8, or a bias of i32 with the product of two scales, with a scale for each of `n`.
  std::vector<float> weight_scales(int64_t n) {
    std::vector<float> scales(static_cast<size_t>(n));
    for (float& s : scales) s = std::ldexp(1.0F, -pick(7, 9));
    return scales;
  }
  std::string weights(const std::vector<int64_t>& dims, const std::vector<float>& scales,
                      int64_t axis) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    std::vector<int8_t> values(static_cast<size_t>(count));
    for (int8_t& v : values) v = static_cast<int8_t>(pick(-127, 127));
    return add(
        "DequantizeLinear",
        {integers(kInt8, values, dims), floats(scales, {static_cast<int64_t>(scales.size())})},
        {attribute("axis", axis)});
  }

  /// What follows a sum before it is rounded.
  std::string followed(std::string real) {
    if (one_in(2)) real = add("Relu", {real});
    if (one_in(4)) real = add("Clip", {real, floats({0}, {}), floats({6}, {})});
    return real;
  }

  void convolution() {
    const Bytes x = any();
    const bool depthwise = one_in(2);
    const int64_t window = one_in(2) ? 1 : 3, stride = x.size > 4 && one_in(3) ? 2 : 1;
    const int64_t channels = depthwise ? x.channels : 4 * pick(1, 5) + (one_in(3) ? 1 : 0);
    const std::vector<float> scales = weight_scales(channels);
    std::vector<std::string> inputs{
        real(x), weights({channels, depthwise ? 1 : x.channels, window, window}, scales, 0)};
    if (one_in(2)) inputs.push_back(bias(channels));
    const int64_t pad = window / 2;
    const std::string y = add("Conv", inputs,
                              {attribute("pads", std::vector<int64_t>{pad, pad, pad, pad}),
                               attribute("strides", std::vector<int64_t>{stride, stride}),
                               attribute("group", depthwise ? x.channels : int64_t{1})});
    stages_.push_back(quantized(followed(y), channels, (x.size - 1) / stride + 1));
  }

  std::string bias(int64_t channels) {
    std::vector<int32_t> values(static_cast<size_t>(channels));
    for (int32_t& v : values) v = pick(-20000, 20000);
    return add("DequantizeLinear",
               {integers(kInt32, values, {channels}), floats({std::ldexp(1.0F, -13)}, {})});
  }

  /// Two stages of one size, which may be the same.
  std::pair<Bytes, Bytes> two(bool same_channels) {
    const Bytes a = any();
    std::vector<Bytes> fitting;
    for (const Bytes& b : stages_) {
      if (b.size == a.size && (!same_channels || b.channels == a.channels)) fitting.push_back(b);
    }
    return {a, fitting[static_cast<size_t>(pick(0, static_cast<int>(fitting.size()) - 1))]};
  }

  void sum() {
    const auto [a, b] = two(true);
    stages_.push_back(quantized(followed(add("Add", {real(a), real(b)})), a.channels, a.size));
  }

  void concat() {
    const auto [a, b] = two(false);
    if (a.channels + b.channels > 24) return sum();
    stages_.push_back(quantized(add("Concat", {real(a), real(b)}, {attribute("axis", int64_t{1})}),
                                a.channels + b.channels, a.size));
  }

  void pool() {
    const Bytes x = any();
    if (x.size % 2 != 0) return sum();
    const std::vector<onnx::Message> window{attribute("kernel_shape", std::vector<int64_t>{2, 2}),
                                            attribute("strides", std::vector<int64_t>{2, 2})};
    const std::string y = add(one_in(2) ? "MaxPool" : "AveragePool", {real(x)}, window);
    stages_.push_back(quantized(y, x.channels, x.size / 2));
  }

  void add_stage() {
    switch (pick(0, 5)) {
      case 0: return sum();
      case 1: return concat();
      case 2: return pool();
      default: return convolution();
    }
  }

  /// As bytes, in f32, or through a product of the flattened image.
  void output(const Bytes& b) {
    std::string y = b.name;
    int type = 0;
    std::vector<std::string> dims{"1", std::to_string(b.channels), std::to_string(b.size),
                                  std::to_string(b.size)};
    const int64_t length = b.channels * b.size * b.size;
    if (one_in(2)) {
      y = real(b);
      type = testing::kFloat;
    }
    if (type != 0 && length <= 400 && one_in(2)) {
      const std::string flat = add("Flatten", {y});
      y = add("MatMul", {flat, weights({length, 10}, weight_scales(10), 1)});
      dims = {"1", "10"};
    }
    parts_.outputs.push_back(value_info(y, dims, type == 0 ? kUint8 : type));
  }

  std::mt19937 random_;
  testing::ModelParts parts_;
  std::vector<Bytes> stages_;
  int names_ = 0;
};

class RandomQuantised : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomQuantised, AreWhatTheInterpreterComputes) {
  const auto count = static_cast<uint32_t>(testing::number_from_env("HEDDLE_PROPERTY_COUNT", 4));
  for (uint32_t seed = GetParam() * count; seed < (GetParam() + 1) * count; ++seed) {
    for (const DataType type : {f32, f16, bf16}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + to_string(type));
      const OnnxModel model = onnx::import_model(
          onnx::parse_model(RandomNetwork(seed).bytes(), "random.onnx"), {.precision = type}, {});
      const NDArray x = NDArray::random(model.inputs[0].extents(), f32, seed, -6, 6);
      const std::vector<NDArray> wanted = interpret(model.outputs, {{model.inputs[0], x}});
      std::vector<NDArray> got;
      for (const Tensor& t : model.outputs) got.push_back(NDArray::zeros(t.extents(), t.dtype()));
      PassOptions passes;
      passes.channels_last = seed % 3 == 0;
      Network(model.outputs, Target::host(), current_auto_scheduler_options(), passes)
          .build(model.args())
          .call(model.arrays({x}, got));
      for (size_t o = 0; o < got.size(); ++o) {
        const Difference d = compare(got[o], wanted[o], 0, 0);
        EXPECT_TRUE(d.ok()) << "output " << o << ": " << describe(d, wanted[o]);
      }
    }
  }
}

// What stays float is narrower; the products are those of f32.
TEST(QuantisedInNarrowTypes, AsManyProductsAreOfBytesInNarrowTypes) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    std::vector<std::string> said;
    for (const DataType type : {f32, f16, bf16}) {
      const OnnxModel model = onnx::import_model(
          onnx::parse_model(RandomNetwork(seed).bytes(), "random.onnx"), {.precision = type}, {});
      said.emplace_back();
      const Network network(model.outputs);
      for (const PassApplication& a : network.passes()) {
        if (a.pass == "integer_products" || a.pass == "move_bytes") said.back() += a.text + "\n";
      }
    }
    EXPECT_EQ(said[1], said[0]) << "seed " << seed;
    EXPECT_EQ(said[2], said[0]) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomQuantised, ::testing::Range(0U, 6U));

}  // namespace
}  // namespace heddle
