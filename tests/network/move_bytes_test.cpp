// Bytes that are moved between pairs of dequantisation and quantisation: the graph after the pass
// has the same bytes, for any scales and with f32, f16 or bf16 between, and moves no floats.
#include "heddle/support/rng.h"
#include "network/network_testing.h"
#include "network/passes/graph_pass.h"

namespace heddle::testing {
namespace {

struct Pair {
  double scale = 1;
  int64_t zero = 0;
};

Tensor dequantised(const Tensor& bytes, const Pair& by, DataType type = f32) {
  return ops::elementwise("dequantize", {bytes}, [&](const std::vector<Expr>& v) {
    Expr x = cast(i32, v[0]);
    if (by.zero != 0) x = x - Expr(by.zero);
    return cast(type, cast(f32, x) * make_const(f32, by.scale));
  });
}

Tensor quantised(const Tensor& x, const Pair& by, DataType type) {
  const double low = type == u8 ? 0 : -128;
  return ops::elementwise("quantize", {x}, [&](const std::vector<Expr>& v) {
    const auto number = [](double value) { return make_const(f32, value); };
    const Expr steps =
        round(cast(f32, v[0]) / number(by.scale)) + number(static_cast<double>(by.zero));
    return cast(type, min(max(steps, number(low)), number(low + 255)));
  });
}

Pair drawn(Rng& rng, DataType type) {
  const double mantissa = static_cast<double>(rng.uniform_int(1000, 9999)) / 1000;
  return {std::pow(10.0, static_cast<double>(rng.uniform_int(-4, 2))) * mantissa,
          type == u8 ? rng.uniform_int(0, 255) : rng.uniform_int(-128, 127)};
}

std::vector<Tensor> rewritten(const std::vector<Tensor>& outputs) {
  std::vector<PassApplication> log;
  const PassOptions options;
  network::ChoiceList choices(options);
  return network::run_passes(ComputeDag(outputs), Target::host(), options, choices, log).outputs();
}

/// The number of stages of floats that run at every call.
int stages_of_floats(const std::vector<Tensor>& outputs) {
  const ComputeDag dag(outputs);
  int found = 0;
  for (int s = 0; s < dag.size(); ++s)
    found += !dag.stage(s).is_placeholder() && dag.stage(s).output(0).dtype().is_float() ? 1 : 0;
  return found;
}

Tensor moved_together(const Tensor& p, const Tensor& q) {
  return ops::transpose(ops::reshape(ops::concat({p, q}, 1), {2, 4, 4, 16}), {0, 2, 1, 3});
}

NDArray all_bytes(DataType type) {
  NDArray array = NDArray::empty({2, 8, 16}, type);
  for (int64_t i = 0; i < 256; ++i) array.set(i, static_cast<double>(type == u8 ? i : i - 128));
  return array;
}

TEST(MoveBytes, EveryByteOfAnyScaleStaysWhatItWas) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const DataType type = rng.choose<DataType>({u8, i8});
    const DataType between = rng.choose<DataType>({f32, f16, bf16});
    const Tensor p = placeholder({2, 8, 16}, type, "p"), q = placeholder({2, 8, 16}, type, "q");
    const Pair first = drawn(rng, type);
    const bool same = rng.chance(0.5);
    const Pair second = same ? first : drawn(rng, type);
    const Tensor moved =
        moved_together(dequantised(p, first, between), dequantised(q, second, between));
    const std::vector<Tensor> outputs{quantised(moved, first, type)};
    const std::vector<Tensor> after = rewritten(outputs);
    EXPECT_EQ(stages_of_floats(after), 0);
    const std::vector<TensorValue> inputs{{p, all_bytes(type)}, {q, all_bytes(type)}};
    const NDArray want = interpret(outputs, inputs)[0], made = interpret(after, inputs)[0];
    EXPECT_LE(max_abs_diff(made, want), between == bf16 ? 1 : 0);
    const NDArray got = NDArray::zeros(outputs[0].extents(), type);
    Network(outputs).build({p, q, outputs[0]})(inputs[0].value, inputs[1].value, got);
    EXPECT_EQ(max_abs_diff(got, made), 0);
    if (same && between == bf16) {
      EXPECT_EQ(max_abs_diff(made, interpret({moved_together(p, q)}, inputs)[0]), 0);
    }
  }
}

// What is joined is also read in f32, so both are needed, and the graph stays.
TEST(MoveBytes, WhatOthersReadInF32Stays) {
  const Tensor p = placeholder({2, 8, 16}, u8, "p");
  const Tensor moved = ops::transpose(dequantised(p, {0.5, 3}), {1, 0, 2});
  const std::vector<Tensor> outputs{quantised(moved, {0.5, 3}, u8), ops::exp(moved)};
  std::vector<PassApplication> log;
  const PassOptions options;
  network::ChoiceList choices(options);
  network::run_passes(ComputeDag(outputs), Target::host(), options, choices, log);
  for (const PassApplication& a : log) EXPECT_NE(a.pass, "move_bytes") << a.text;
}

// Bounds that are not those of the type are no saturation to it.
TEST(MoveBytes, OtherBoundsStay) {
  const Tensor p = placeholder({2, 8, 16}, u8, "p");
  const Tensor moved = ops::transpose(dequantised(p, {0.5, 3}), {1, 0, 2});
  const Tensor bounded = ops::elementwise("quantize", {moved}, [&](const std::vector<Expr>& v) {
    const auto number = [](double value) { return make_const(f32, value); };
    return cast(u8, min(max(round(v[0] / number(0.5)) + number(3), number(0)), number(200)));
  });
  const std::vector<TensorValue> inputs{{p, all_bytes(u8)}};
  EXPECT_EQ(
      max_abs_diff(interpret(rewritten({bounded}), inputs)[0], interpret({bounded}, inputs)[0]), 0);
}

/// The stages that bound values, in the graph after the pass.
int stages_named(const std::vector<Tensor>& outputs, const std::string& name) {
  const ComputeDag dag(outputs);
  int found = 0;
  for (int s = 0; s < dag.size(); ++s) found += dag.stage(s).name() == name ? 1 : 0;
  return found;
}

// The bytes of what lies beyond the bounds are those of the bounds.
TEST(MoveBytes, BoundsThatTheRoundingImpliesAreLeftOut) {
  const Tensor x = placeholder({400}, f32, "x");
  const NDArray values = NDArray::random({400}, f32, 9, -12, 12);
  const struct {
    Pair by;
    DataType type;
    bool implied;
  } cases[] = {{{6.0 / 255, 0}, u8, true},    {{5.9 / 255, 0}, u8, true},
               {{6.0 / 255, -128}, i8, true}, {{6.1 / 255, 1}, u8, false},
               {{6.0 / 255, 1}, u8, false},   {{6.1 / 255, 0}, u8, false},
               {{6.0 / 127, 0}, i8, false},   {{12.0 / 255, 128}, u8, false}};
  for (const auto& c : cases) {
    const std::vector<Tensor> outputs{quantised(ops::clip(x, 0, 6), c.by, c.type)};
    const std::vector<Tensor> after = rewritten(outputs);
    if (c.implied) {
      EXPECT_EQ(stages_named(after, "clip"), 0) << c.by.scale << " " << c.by.zero;
    }
    EXPECT_EQ(
        max_abs_diff(interpret(after, {{x, values}})[0], interpret(outputs, {{x, values}})[0]), 0);
  }
  const Tensor bounded = ops::clip(x, 0, 6);
  EXPECT_EQ(
      stages_named(rewritten({quantised(bounded, {6.0 / 255, 0}, u8), ops::exp(bounded)}), "clip"),
      1)
      << "something else reads it";
}

}  // namespace
}  // namespace heddle::testing
