// Products of rounded inputs with weights of few bits: they are what plain loops over the rounded numbers give, on
// every machine, and as far from the exact ones as rounding may take them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "environment.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/codegen/llvm.h"
#include "heddle/dag/alternatives.h"
#include "heddle/heddle.h"
#include "heddle/instruction/instruction.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/ops.h"
#include "heddle/support/rng.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBlock = 32;

/// How the weights are stored.
enum class Kind { FourBits, FourBitsWithZeros, Bytes, WithOffsets, UnsignedBytes };
constexpr Kind kKinds[] = {Kind::FourBits, Kind::FourBitsWithZeros, Kind::Bytes, Kind::WithOffsets,
                           Kind::UnsignedBytes};

struct Problem {
  int64_t rows = 1, columns = 8, depth = 512;
  Kind kind = Kind::Bytes;
  Tensor x, y;
  NDArray exact;  ///< the weights, of f32

  ComputeDag dag() const { return ComputeDag({y}); }
};

Problem problem(int64_t rows, int64_t columns, int64_t depth, Kind kind, uint64_t seed) {
  Problem p{rows, columns, depth, kind, {}, {}, {}};
  const int64_t blocks = depth / kBlock;
  const bool bytes = kind == Kind::Bytes, unsigned_bytes = kind == Kind::UnsignedBytes;
  const NDArray bits =
      bytes ? NDArray::random({columns, depth}, i8, seed, -128, 127)
            : NDArray::random({columns, unsigned_bytes ? depth : depth / 2}, u8, seed, 0, 255);
  const Tensor packed = constant(bits, "bits"),
               scale =
                   constant(NDArray::random({columns, blocks}, f16, seed + 1, 0.01, 0.1), "scale"),
               zero = constant(NDArray::random({columns, blocks}, u8, seed + 2, 0, 15), "zero"),
               least = constant(NDArray::random({columns, blocks}, f32, seed + 3, -1, 0), "least");
  const Tensor weights = compute(
      {columns, depth},
      [&](Axis n, Axis k) {
        const Expr block = floordiv(k, kBlock), by = cast(f32, scale(n, block));
        if (bytes) return cast(f32, packed(n, k)) * by;
        if (unsigned_bytes) return cast(f32, cast(i32, packed(n, k)) - 128) * by;
        const Expr shift = cast(i32, floormod(k, 2)) * 4;
        const Expr number = bitwise_and(shift_right(cast(i32, packed(n, floordiv(k, 2))), shift),
                                        make_const(i32, 15));
        if (kind == Kind::FourBitsWithZeros)
          return cast(f32, number - cast(i32, zero(n, block))) * by;
        if (kind == Kind::WithOffsets) return cast(f32, number) * by + least(n, block);
        return cast(f32, number - 8) * by;
      },
      "weights");
  p.exact = interpret({weights}, {})[0];
  p.x = placeholder({rows, depth}, f32, "x");
  p.y = ops::matmul(p.x, weights, false, true);
  return p;
}

/// A row of the input after rounding.
std::vector<double> rounded(const NDArray& x, int64_t row, int64_t depth) {
  std::vector<double> out;
  for (int64_t b = 0; b < depth; b += kBlock) {
    float most = 0;
    for (int64_t i = b; i < b + kBlock; ++i) most = std::max(most, std::abs(x.at<float>({row, i})));
    for (int64_t i = b; i < b + kBlock; ++i) {
      const float q = most > 1e-30F ? std::nearbyint(x.at<float>({row, i}) * (127 / most)) : 0;
      out.push_back(static_cast<double>(q) * most / 127);
    }
  }
  return out;
}

/// "" where `y` is the product of the rounded input.
std::string wrong(const Problem& p, const NDArray& x, const NDArray& y) {
  for (int64_t m = 0; m < p.rows; ++m) {
    const std::vector<double> row = rounded(x, m, p.depth);
    for (int64_t n = 0; n < p.columns; ++n) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < p.depth; ++k) {
        const double term = row[static_cast<size_t>(k)] * p.exact.at<float>({n, k});
        want += term;
        size += std::abs(term);
      }
      if (!(std::abs(y.at<float>({m, n}) - want) <= 1e-5 * size + 1e-6))
        return "element " + std::to_string(m) + ", " + std::to_string(n) + ": " +
               std::to_string(y.at<float>({m, n})) + " and not " + std::to_string(want);
    }
  }
  return "";
}

std::string rule(int64_t lanes, const ComputeDag& dag) {
  int stage = -1;
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.stage(s).is_reduction()) stage = s;
  }
  return "dynamic_quantization(lanes=" + std::to_string(lanes) + ")@" + std::to_string(stage);
}

NDArray input_of(const Problem& p, uint64_t seed) {
  NDArray x = NDArray::random({p.rows, p.depth}, f32, seed, -3, 3);
  for (int64_t i = 0; i < kBlock; ++i) x.set(i, 0);               // a block of zeros
  for (int64_t i = kBlock; i < 2 * kBlock; ++i) x.set(i, 1e-33);  // one that counts as zeros
  return x;
}

TEST(DynamicQuantization, GivesTheProductOfTheRoundedInput) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 12),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const int64_t lanes = int64_t{4} << rng.uniform_int(0, 2);
    const Problem p = problem(rng.uniform_int(1, 5), rng.uniform_int(1, 40),
                              kBlock * lanes * rng.uniform_int(1, 3), kKinds[seed % 5],
                              static_cast<uint64_t>(seed));
    const ComputeDag dag = p.dag();
    const std::string name = rule(lanes, dag);
    SCOPED_TRACE(name + ", seed " + std::to_string(seed));
    const ComputeDag other = apply_alternative(dag, name);
    const NDArray x = input_of(p, static_cast<uint64_t>(seed) + 9);
    EXPECT_EQ(wrong(p, x, interpret(other.outputs(), {{other.counterpart(p.x), x}})[0]), "");
    NDArray y = NDArray::zeros({p.rows, p.columns}, f32);
    build(create_schedule(other.outputs()), {other.counterpart(p.x), other.outputs()[0]})(x, y);
    EXPECT_EQ(wrong(p, x, y), "");
  }
}

TEST(DynamicQuantization, MultipliesFourBytesAnInstruction) {
  const Target vnni = Target::parse("llvm -mcpu=sapphirerapids -threads=1");
  for (const Kind kind : kKinds) {
    const Problem p = problem(1, 64, 1024, kind, 3);
    const ComputeDag other = apply_alternative(p.dag(), rule(16, p.dag()));
    const Template t = make_template(other, vnni);
    std::vector<Tensor> args = other.placeholders();
    args.push_back(other.outputs()[0]);
    // Weights are packed once, also where that only moves them.
    EXPECT_THAT(t.static_schedule().to_text(),
                ::testing::Not(HasSubstr("weights_packed.compute_inline")));
    const LoweredProgram lowered = lower(t.static_schedule(), args);
    EXPECT_THAT(emit_llvm({lowered.main}, vnni, "s"), HasSubstr("vpdpbusd"));
  }
}

/// Rows from memory are read one after the other at any length: blocks have chains of their own.
TEST(DynamicQuantization, ReadsRowByRow) {
  const Target vnni = Target::parse("llvm -mcpu=sapphirerapids -threads=1");
  for (const int64_t depth : {2048, 5632}) {
    const Problem p = problem(1, 4096, depth, Kind::Bytes, 3);
    const Template t = make_template(apply_alternative(p.dag(), rule(16, p.dag())), vnni);
    const auto rows =
        std::ranges::find_if(t.knobs(), [](const auto& k) { return k.name.ends_with("streams"); });
    ASSERT_NE(rows, t.knobs().end()) << t.knobs().size();
    EXPECT_EQ(rows->default_value, 1) << rows->name << ", " << depth;
  }
}

TEST(DynamicQuantization, IsTakenForFewRowsWhereTheOptionsAllowIt) {
  const Target vnni = Target::parse("llvm -mcpu=sapphirerapids"), amd = Target::parse("llvm");
  const auto chosen = [](const Problem& p, const Target& target, bool allowed) {
    return choose_alternative(p.dag(), target, {.allow_approximate = allowed})
        .starts_with("dynamic_quantization(lanes=16)");
  };
  for (const Kind kind : kKinds) {
    EXPECT_TRUE(chosen(problem(1, 64, 1024, kind, 1), vnni, true));
    EXPECT_TRUE(chosen(problem(4, 64, 1024, kind, 1), vnni, true));
    EXPECT_FALSE(chosen(problem(5, 64, 1024, kind, 1), vnni, true));
    EXPECT_FALSE(chosen(problem(1, 64, 1024, kind, 1), vnni, false));
    EXPECT_FALSE(chosen(problem(1, 64, 1024, kind, 1), amd, true));
    EXPECT_FALSE(chosen(problem(1, 64, 480, kind, 1), vnni, true)) << "blocks fill no vector";
  }
}

TEST(DynamicQuantization, ABlockThatIsNotFiniteMakesAResultThatIsNone) {
  const Problem p = problem(1, 3, 512, Kind::FourBits, 5);
  const ComputeDag other = apply_alternative(p.dag(), rule(16, p.dag()));
  for (const float bad : {NAN, INFINITY}) {
    NDArray x = input_of(p, 4), y = NDArray::zeros({1, 3}, f32);
    x.set(100, bad);
    build(create_schedule(other.outputs()), {other.counterpart(p.x), other.outputs()[0]})(x, y);
    for (int64_t n = 0; n < 3; ++n) EXPECT_FALSE(std::isfinite(y.at<float>({0, n})));
  }
}

TEST(DynamicQuantization, NetworksTakeItForTheSizesOfFewRows) {
  const Problem p = problem(1, 96, 1024, Kind::FourBits, 7);
  AutoSchedulerOptions options;
  options.allow_approximate = true;
  Target target = Target::host();
  if (!adds_products(target, i32, u8, i8, 4) || target.vector_bytes != 64)
    GTEST_SKIP() << "no instruction for it";
  NDArray y = NDArray::zeros({1, 96}, f32);
  const NDArray x = input_of(p, 8);
  Network({p.y}, target, options).build({p.x, p.y})(x, y);
  EXPECT_EQ(wrong(p, x, y), "");
  EXPECT_NE(wrong(p, x, interpret({p.y}, {{p.x, x}})[0]), "");
}

}  // namespace
}  // namespace heddle::testing
