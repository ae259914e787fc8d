// Products of dequantised bytes: what the rewritten graph computes against what was declared, and
// the instruction that it reaches.
#include "environment.h"
#include "heddle/codegen/llvm.h"
#include "heddle/lower/lower.h"
#include "heddle/support/rng.h"
#include "network/cut/task_schedules.h"
#include "network/drawn_convolution.h"
#include "network/network_testing.h"
#include "network/passes/graph_pass.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

constexpr float kStep = 0.05F;  // of results

/// Bytes as real numbers of `type`. `point` is the zero point; `scale`, of f32 or of `type`, broadcasts to the
/// shape.
Tensor dequantised(const Tensor& bytes, int64_t point, const Tensor& scale, DataType type = f32) {
  return ops::elementwise("dequantize", {bytes, scale}, [&](const std::vector<Expr>& v) {
    Expr x = cast(i32, v[0]);
    if (point != 0) x = x - Expr(point);
    return cast(type, cast(v[1].dtype(), x) * v[1]);
  });
}

Tensor dequantised(const Tensor& bytes, int64_t point, double scale) {
  return dequantised(bytes, point, ops::full({}, scale, f32));
}

Tensor quantised(const Tensor& x) {
  const Tensor steps = ops::round(ops::mul(ops::cast(x, f32), make_const(f32, 1 / kStep)));
  return ops::cast(ops::clip(ops::add(steps, make_const(f32, 128)), 0, 255), u8);
}

int64_t drawn_point(Rng& rng, DataType type) {
  if (rng.chance(0.3)) return 0;
  return type == u8 ? rng.uniform_int(1, 255) : rng.uniform_int(-128, 127);
}

/// A network of one quantised product or convolution between pairs.
class Drawer {
 public:
  explicit Drawer(Rng& rng) : rng_(rng) {}

  Tensor run() {
    Tensor y = rng_.chance(0.6) ? convolution() : product();
    if (rng_.chance(0.7)) y = ops::relu(y);
    return rng_.chance(0.7) ? quantised(y) : y;
  }

  /// Whether the weights have no zero point.
  bool symmetric() const { return symmetric_; }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }

  Tensor input(Shape shape) {
    const DataType type = rng_.choose<DataType>({u8, i8});
    return dequantised(placeholder(std::move(shape), type, "x"), drawn_point(rng_, type), 0.02);
  }

  Tensor weight(Shape shape, const Shape& scales) {
    const DataType type = rng_.chance(0.8) ? i8 : u8;
    const int64_t point = rng_.chance(0.8) ? 0 : drawn_point(rng_, type);
    symmetric_ = point == 0;
    const Tensor bytes = constant_placeholder(std::move(shape), type, "w");
    if (rng_.chance(0.4)) return dequantised(bytes, point, 0.01);
    return dequantised(bytes, point, weights(scales, "scale"));
  }

  Tensor convolution() {
    const DrawnConvolution drawn = draw_convolution(rng_);
    const Expr k = drawn.weights[0];
    const Tensor bias = rng_.chance(0.5) ? weights({k}, "bias") : Tensor();
    return ops::conv2d(input(drawn.image), weight(drawn.weights, {k, 1, 1, 1}), drawn.how, bias);
  }

  Tensor product() {
    const int64_t m = pick(1, 5), k = pick(1, 9), n = pick(1, 7);
    Tensor x = input({m, k});
    Tensor y;
    switch (pick(0, 2)) {
      case 0: y = ops::matmul(x, weight({k, n}, {n})); break;
      case 1: y = ops::dense(x, weight({n, k}, {n, 1})); break;
      default: y = ops::matmul(ops::transpose(input({k, m}), {1, 0}), weight({k, n}, {1, n}));
    }
    return rng_.chance(0.5) ? ops::add(y, weights({n}, "bias")) : y;
  }

  Rng& rng_;
  bool symmetric_ = false;
};

std::vector<Tensor> rewritten(const std::vector<Tensor>& outputs, const char* passes = "") {
  std::vector<PassApplication> log;
  const PassOptions options = parse_passes(passes);
  network::ChoiceList choices(options);
  return network::run_passes(ComputeDag(outputs), Target::host(), options, choices, log).outputs();
}

/// The number of sums of i32 in the graph that run at every call.
int sums_of_bytes(const std::vector<Tensor>& outputs) {
  const ComputeDag dag(outputs);
  int found = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    if (!dag.info(s).precomputable && op.is_reduction() && op.output(0).dtype() == i32) ++found;
  }
  return found;
}

TEST(IntegerProducts, RandomOnesComputeWhatWasDeclared) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 60),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    Drawer drawer(rng);
    const std::vector<Tensor> outputs{drawer.run()};
    EXPECT_EQ(sums_of_bytes(rewritten(outputs)), drawer.symmetric() ? 1 : 0);
    EXPECT_EQ(sums_of_bytes(rewritten(outputs, "-integer_products")), 0);
    const std::vector<Tensor> args = args_of(outputs);
    std::vector<NDArray> arrays = arrays_for(args, static_cast<uint64_t>(seed));
    std::vector<TensorValue> inputs;
    for (size_t i = 0; i + 1 < args.size(); ++i) inputs.push_back({args[i], arrays[i]});
    const NDArray want = interpret(outputs, inputs)[0];
    Network(outputs).build(args).call(arrays);
    // Results of bytes are at most one step apart where f32 rounded the other way.
    const double within = outputs[0].dtype() == u8 ? 1 : 1e-3;
    for (int64_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(arrays.back().get(i), want.get(i), within) << ComputeDag(outputs).to_text();
  }
}

/// The product of two activations with zero points, of heads that lie side by side in the bytes of one of them.
Tensor attention_product(DataType a, DataType b) {
  const Tensor q = placeholder({20, 3 * 33}, a, "q"), k = placeholder({3, 33, 24}, b, "k");
  const Tensor heads = ops::transpose(
      ops::reshape(dequantised(q, a == u8 ? 131 : -7, 0.02), {20, 3, 33}), {1, 0, 2});
  return ops::matmul(heads, dequantised(k, b == u8 ? 90 : 11, 0.03));
}

TEST(IntegerProducts, OfTwoActivationsWithZeroPointsSumBoth) {
  for (const auto& [a, b] : {std::pair{u8, u8}, {u8, i8}, {i8, u8}, {i8, i8}}) {
    const std::vector<Tensor> outputs{attention_product(a, b)};
    EXPECT_EQ(sums_of_bytes(rewritten(outputs)), 3);
    const std::vector<Tensor> args = args_of(outputs);
    std::vector<NDArray> arrays = arrays_for(args, 7);
    const NDArray want = interpret(outputs, {{args[0], arrays[0]}, {args[1], arrays[1]}})[0];
    Network(outputs).build(args).call(arrays);
    for (int64_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(arrays.back().get(i), want.get(i), 1e-2) << i;
  }
}

/// Attention whose queries, keys and values are products of one input, each with a scale of its own for its
/// weights and for its result, and a zero point.
std::vector<Tensor> attention_of_bytes() {
  const Tensor x = dequantised(placeholder({6, 16}, u8, "x"), 9, 0.05);
  std::vector<Tensor> parts;
  for (const int64_t i : {0, 1, 2}) {
    const Tensor w =
        dequantised(constant_placeholder({8, 16}, i8, "w"), 0, 0.01 * static_cast<double>(i + 1));
    const Tensor y = ops::add(ops::dense(x, w), weights({8}, "bias"));
    const double step = 0.05 + 0.02 * static_cast<double>(i);
    const Tensor steps = ops::add(ops::round(ops::mul(y, make_const(f32, 1 / step))),
                                  make_const(f32, 100 + 3 * static_cast<double>(i)));
    parts.push_back(dequantised(ops::cast(ops::clip(steps, 0, 255), u8), 100 + 3 * i, step));
  }
  const Tensor scores = ops::matmul(parts[0], parts[1], false, true);
  return {ops::matmul(ops::softmax(scores), parts[2])};
}

TEST(IntegerProducts, OfOneInputAreOneWithScalesOfTheirOwn) {
  const std::vector<Tensor> outputs = attention_of_bytes();
  EXPECT_EQ(sums_of_bytes(rewritten(outputs)) + 2,
            sums_of_bytes(rewritten(outputs, "-join_products")));
  const std::vector<Tensor> args = args_of(outputs);
  std::vector<NDArray> arrays = arrays_for(args, 11);
  std::vector<TensorValue> inputs;
  for (size_t i = 0; i + 1 < args.size(); ++i) inputs.push_back({args[i], arrays[i]});
  const NDArray want = interpret(outputs, inputs)[0];
  Network(outputs).build(args).call(arrays);
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(arrays.back().get(i), want.get(i), 0.3) << i;
}

// Each row would be summed for a few products.
TEST(IntegerProducts, OfFewRowsAreNotSummedAtEveryCall) {
  const Tensor x = placeholder({2, 64}, u8, "x"), y = placeholder({64, 300}, u8, "y");
  EXPECT_EQ(
      sums_of_bytes(rewritten({ops::matmul(dequantised(x, 3, 0.02), dequantised(y, 128, 0.02))})),
      0);
}

/// A product and a convolution of bytes that are rounded to `type` once they are scaled, or have scales of it.
std::vector<Tensor> narrow_products(DataType type, DataType of_scales) {
  const auto scale = [&](double value) { return ops::full({}, value, of_scales); };
  const Tensor x = placeholder({5, 24}, u8, "x"), w = constant_placeholder({24, 7}, i8, "w"),
               image = placeholder({1, 6, 7, 7}, i8, "image"),
               taps = constant_placeholder({8, 6, 3, 3}, i8, "taps");
  return {ops::matmul(dequantised(x, 131, scale(0.02), type), dequantised(w, 0, scale(0.01), type)),
          quantised(ops::relu(ops::conv2d(dequantised(image, -9, scale(0.02), type),
                                          dequantised(taps, 0, scale(0.01), type),
                                          ops::Conv{.padding = {1}})))};
}

TEST(IntegerProducts, OfBytesThatAreRoundedToNarrowNumbers) {
  for (const DataType type : {f16, bf16}) {
    for (const DataType of_scales : {f32, type}) {
      const std::vector<Tensor> outputs = narrow_products(type, of_scales);
      EXPECT_EQ(sums_of_bytes(rewritten(outputs)), 2) << type << " " << of_scales;
      const std::vector<Tensor> args = args_of(outputs);
      std::vector<NDArray> arrays = arrays_for(args, 3);
      std::vector<TensorValue> inputs;
      for (size_t i = 0; i + outputs.size() < args.size(); ++i)
        inputs.push_back({args[i], arrays[i]});
      const std::vector<NDArray> want = interpret(outputs, inputs);
      Network(outputs).build(args).call(arrays);
      for (size_t o = 0; o < outputs.size(); ++o) {
        const NDArray& got = arrays[arrays.size() - outputs.size() + o];
        // A step of the bytes, and of floats the error of both operands.
        const double within = o == 1 ? 1 : type == f16 ? 0.02 : 0.15;
        for (int64_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got.get(i), want[o].get(i), within) << type << " output " << o << " at " << i;
      }
    }
  }
}

// The sum of a residual makes numbers of the bytes that it reads.
TEST(IntegerProducts, BytesLieInMemoryAndNotTheirNumbers) {
  const Tensor x = placeholder({1, 16, 8, 8}, u8, "x");
  const auto conv = [&](const Tensor& in) {
    return ops::conv2d(dequantised(in, 3, 0.02),
                       dequantised(constant_placeholder({16, 16, 1, 1}, i8, "w"), 0, 0.01));
  };
  const Tensor a = quantised(conv(x)), b = quantised(conv(a)),
               sum = quantised(ops::add(dequantised(a, 128, kStep), dequantised(b, 128, kStep)));
  for (const Tensor& y : {sum, quantised(conv(sum))}) {
    for (const Target& target : {Target::host(), Target::parse("cuda -gpu=h200")}) {
      const Network network({y}, target);
      for (const NetworkNode& node : network.nodes()) {
        for (const Tensor& t : node.outputs) EXPECT_TRUE(t.dtype().is_integral());
      }
    }
  }
}

// A sum in f16 is another one.
TEST(IntegerProducts, OfSumsInF16StayFloat) {
  const Tensor x = placeholder({5, 24}, u8, "x"), w = constant_placeholder({24, 7}, i8, "w");
  const Tensor scale = ops::full({}, 0.02, f16);
  EXPECT_EQ(sums_of_bytes(
                rewritten({ops::matmul(dequantised(x, 3, scale, f16), dequantised(w, 0, scale, f16),
                                       false, false, {.accumulate = f16})})),
            0);
}

TEST(IntegerProducts, PaddingHasTheValueOfTheZeroPoint) {
  const Tensor x = placeholder({1, 1, 1, 1}, u8, "x"),
               w = constant_placeholder({1, 1, 3, 3}, i8, "w");
  const std::vector<Tensor> outputs{
      ops::conv2d(dequantised(x, 7, 0.5), dequantised(w, 0, 0.25), ops::Conv{.padding = {1}})};
  const std::vector<Tensor> made = rewritten(outputs);
  EXPECT_EQ(sums_of_bytes(made), 1);
  const NDArray bytes = NDArray::full({1, 1, 1, 1}, u8, 10),
                taps = NDArray::full({1, 1, 3, 3}, i8, 2);
  EXPECT_EQ(interpret(made, {{x, bytes}, {w, taps}})[0].get(0), 3 * 0.5 * 2 * 0.25);
}

TEST(IntegerProducts, AZeroPointThatIsNoByteCannotPad) {
  const auto sums = [](int64_t point, int64_t padding) {
    const Tensor x = placeholder({1, 1, 4, 4}, u8, "x"),
                 w = constant_placeholder({1, 1, 3, 3}, i8, "w");
    return sums_of_bytes(rewritten({ops::conv2d(dequantised(x, point, 0.5), dequantised(w, 0, 0.25),
                                                ops::Conv{.padding = {padding}})}));
  };
  EXPECT_EQ(sums(255, 1), 1);
  EXPECT_EQ(sums(256, 1), 0);
  EXPECT_EQ(sums(-3, 1), 0);
  EXPECT_EQ(sums(256, 0), 1);
}

TEST(IntegerProducts, SumsThatCouldExceedI32StayInF32) {
  const auto sums = [](int64_t depth) {
    const Tensor x = placeholder({2, Expr(depth)}, u8, "x"),
                 w = constant_placeholder({Expr(depth), 2}, i8, "w");
    return sums_of_bytes(rewritten({ops::matmul(dequantised(x, 3, 0.5), dequantised(w, 0, 0.5))}));
  };
  EXPECT_EQ(sums(33'000), 1);
  EXPECT_EQ(sums(34'000), 0);
}

// 2^15 products of 256 by 256 are 2^31, which i32 does not have.
TEST(IntegerProducts, TheLargestSumIsANumberOfI32) {
  const auto sums = [](int64_t depth) {
    const Tensor x = placeholder({4, depth}, u8, "x"),
                 w = constant_placeholder({depth, 20}, u8, "w");
    return sums_of_bytes(
        rewritten({ops::matmul(dequantised(x, 256, 0.5), dequantised(w, 256, 0.5))}));
  };
  EXPECT_GT(sums(32'767), 0);
  EXPECT_EQ(sums(32'768), 0);
}

// Zero points of i32 may be any number.
TEST(IntegerProducts, ZeroPointsFarFromTheBytesStayInF32) {
  const auto sums = [](const Tensor& point) {
    const Tensor x = placeholder({20, 400}, u8, "x"), w = constant_placeholder({400, 20}, i8, "w");
    const Tensor numbers =
        ops::elementwise("dequantize", {x, point}, [&](const std::vector<Expr>& v) {
          return cast(f32, cast(i32, v[0]) - cast(i32, v[1])) * 0.5F;
        });
    return sums_of_bytes(rewritten({ops::matmul(numbers, dequantised(w, 0, 0.5))}));
  };
  EXPECT_EQ(sums(ops::full({}, 20'000, i32)), 1);
  EXPECT_EQ(sums(ops::full({}, 2'000'000, i32)), 0);
  EXPECT_EQ(sums(placeholder({}, u8, "point")), 1);
  EXPECT_EQ(sums(placeholder({}, i32, "point")), 0);
}

TEST(IntegerProducts, ScalesAlongTheSumStayInF32) {
  const Tensor x = placeholder({4, 8}, u8, "x"), w = constant_placeholder({8, 4}, i8, "w");
  EXPECT_EQ(sums_of_bytes(rewritten({ops::matmul(dequantised(x, 0, 0.5),
                                                 dequantised(w, 0, weights({8, 1}, "scale")))})),
            0);
}

/// The code of the network's nodes for a CPU with instructions for bytes.
std::string code_of(const std::vector<Tensor>& outputs) {
  const Target target = Target::parse("llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu");
  std::string text;
  for (const Schedule& schedule : Network(outputs, target).static_schedules()) {
    text += emit_llvm({lower(schedule, network::task_args(schedule)).main}, target, "s");
  }
  return text;
}

TEST(IntegerProducts, ReachTheInstructionsForBytes) {
  const Tensor image = placeholder({1, 64, 14, 14}, u8, "x"),
               matrix = placeholder({64, 256}, u8, "x");
  const Tensor conv = ops::conv2d(
      dequantised(image, 128, 0.02),
      dequantised(constant_placeholder({64, 64, 3, 3}, i8, "w"), 0, weights({64, 1, 1, 1})),
      ops::Conv{.padding = {1}});
  const Tensor product =
      ops::matmul(dequantised(matrix, 128, 0.02),
                  dequantised(constant_placeholder({256, 64}, i8, "w"), 0, weights({64})));
  for (const Tensor& y : {conv, product}) {
    EXPECT_THAT(code_of({quantised(ops::relu(y))}), HasSubstr("vpdpbusd"));
  }
}

}  // namespace
}  // namespace heddle::testing
