// Products of tiles (AMX): the sums are the same for all sizes and forms, by the instructions where
// this machine has them and by the expansion elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "environment.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/codegen/llvm.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/ops.h"
#include "meta_templates/expect_right.h"

namespace heddle::testing {
namespace {

using selftest::RandomProgram;
using ::testing::HasSubstr;
using ::testing::Not;

// A CPU with tiles of every type; its code is generated for this machine.
Target with_tiles() { return Target::parse("llvm -mcpu=graniterapids -threads=2 -l2=256K"); }

// This machine, and the same without its tiles: there the loops run as they are.
std::vector<Target> here() {
  std::vector<Target> out{Target::host()};
  if (Target::host().has("amx-tile"))
    out.push_back(
        Target::parse("llvm -mcpu=native -mattr=-amx-tile,-amx-bf16,-amx-int8,-amx-fp16"));
  return out;
}

struct Form {
  DataType a, b;
  bool transpose_a = false, transpose_b = false;
};

RandomProgram program(std::vector<Tensor> inputs, Tensor output, int64_t depth, std::string text) {
  RandomProgram p;
  p.inputs = std::move(inputs);
  p.outputs = {std::move(output)};
  p.reduce_length = depth;
  p.text = std::move(text);
  return p;
}

RandomProgram product(const Form& f, int64_t m, int64_t n, int64_t k, bool constant = false) {
  auto shape = [](bool turned, int64_t x, int64_t y) {
    return Shape{Expr(turned ? y : x), Expr(turned ? x : y)};
  };
  const Tensor a = placeholder(shape(f.transpose_a, m, k), f.a, "A");
  const Shape of_b = shape(f.transpose_b, k, n);
  const Tensor b = constant ? constant_placeholder(of_b, f.b, "B") : placeholder(of_b, f.b, "B");
  return program({a, b}, ops::matmul(a, b, f.transpose_a, f.transpose_b), k,
                 to_string(f.a) + (f.transpose_a ? " T " : " N ") + to_string(f.b) +
                     (f.transpose_b ? " T " : " N ") + std::to_string(m) + "x" + std::to_string(n) +
                     "x" + std::to_string(k));
}

RandomProgram convolution(DataType t, int64_t size, int64_t channels, int64_t filters,
                          int64_t stride, int64_t window = 3) {
  ops::Conv at;
  at.layout = ops::NHWC;
  at.padding = {window / 2};
  at.stride = {stride};
  const Tensor x = placeholder({2, size, size, channels}, t, "X");
  const Tensor w = constant_placeholder({window, window, channels, filters}, t, "W");
  return program({x, w}, ops::conv2d(x, w, at), window * window * channels,
                 "convolution " + to_string(t) + " " + std::to_string(size));
}

Template template_of(const RandomProgram& p, const Target& target) {
  return make_template(ComputeDag(p.outputs), target);
}

void expect_right_here(const RandomProgram& p, uint64_t seed, int configs) {
  const Template t = template_of(p, with_tiles());
  EXPECT_THAT(t.name(), HasSubstr("tile_product")) << p.text;
  const selftest::Case reference(p, seed);
  Rng rng(seed);
  for (int i = 0; i < configs; ++i) {
    const Config config = i == 0 ? t.default_config() : selftest::random_config(t, rng);
    for (const Target& target : here()) {
      const std::vector<NDArray> arrays = reference.fresh_arrays();
      selftest::compiled(target)(t.instantiate(config), p.args(), arrays);
      EXPECT_EQ(reference.difference(arrays), "")
          << p.text << "\n"
          << to_string(target) << t.config_to_json(config).dump();
    }
  }
}

TEST(TileProduct, EveryTypeAndForm) {
  uint64_t seed = 1;
  for (const auto& [a, b] :
       {std::pair{i8, i8}, {u8, i8}, {i8, u8}, {u8, u8}, {bf16, bf16}, {f16, f16}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        expect_right_here(product({a, b, ta, tb}, 48, 64, 128, seed % 3 == 0), seed, 2);
        ++seed;
      }
    }
  }
}

TEST(TileProduct, OddSizes) {
  uint64_t seed = 100;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{33, 17, 65},
                                {17, 103, 130},
                                {4, 16, 64},
                                {5, 100, 192},
                                {48, 48, 96},
                                {112, 35, 64},
                                {97, 64, 513}}) {
    for (const DataType t : {i8, bf16})
      expect_right_here(product({t, t}, m, n, k, true), ++seed, 2);
  }
}

TEST(TileProduct, Convolutions) {
  uint64_t seed = 200;
  for (const DataType t : {i8, u8, bf16}) {
    expect_right_here(convolution(t, 14, 64, 32, 1), ++seed, 2);
    expect_right_here(convolution(t, 8, 32, 64, 1), ++seed, 2);
    expect_right_here(convolution(t, 16, 32, 16, 2), ++seed, 2);
    expect_right_here(convolution(t, 16, 64, 48, 1, 1), ++seed, 2);
  }
}

// HEDDLE_PROPERTY_COUNT and HEDDLE_PROPERTY_SEED set how many and from where.
TEST(TileProduct, RandomProducts) {
  const int64_t first = number_from_env("HEDDLE_PROPERTY_SEED", 1000),
                count = number_from_env("HEDDLE_PROPERTY_COUNT", 30);
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    constexpr std::pair<DataType, DataType> kTypes[] = {{i8, i8}, {u8, i8},     {i8, u8},
                                                        {u8, u8}, {bf16, bf16}, {f16, f16}};
    const auto [a, b] = kTypes[rng.uniform_int(0, 5)];
    const auto length = [&](int64_t least, int64_t most) {
      const int64_t n = rng.uniform_int(least, most);
      return rng.uniform_int(0, 2) == 0 ? (n + 15) / 16 * 16 : n;
    };
    const bool constant = rng.uniform_int(0, 1) == 0;
    const bool ta = rng.uniform_int(0, 3) == 0, tb = rng.uniform_int(0, 3) == 0;
    const int64_t m = length(constant ? 4 : 32, 90), n = length(16, 120), k = length(64, 200);
    SCOPED_TRACE("HEDDLE_PROPERTY_SEED=" + std::to_string(seed));
    expect_right_here(product({a, b, ta, tb}, m, n, k, constant), static_cast<uint64_t>(seed), 2);
  }
}

TEST(TileProduct, WithAnEpilogueAndInBatches) {
  const Tensor a = placeholder({40, 96}, bf16, "A"), b = constant_placeholder({96, 80}, bf16, "B"),
               bias = placeholder({80}, f32, "bias");
  const Tensor c = ops::matmul(a, b);
  const Tensor out = compute(
      {40, 80},
      [&](const std::vector<Axis>& i) {
        return cast(bf16, max(cast(f32, c(i[0], i[1])) + bias(i[1]), make_const(f32, 0)));
      },
      "out");
  expect_right_here(program({a, b, bias}, out, 96, "with an epilogue"), 1, 4);
  const Tensor x = placeholder({3, 48, 64}, i8, "X"), y = placeholder({3, 64, 32}, u8, "Y");
  expect_right_here(program({x, y}, ops::batch_matmul(x, y), 64, "in batches"), 2, 4);
}

// Of two forms in one function, whose registers are configured differently.
TEST(TileProduct, OneAfterTheOther) {
  const Tensor a = placeholder({40, 64}, i8, "A"), b = constant_placeholder({64, 64}, i8, "B"),
               c = constant_placeholder({64, 32}, i8, "C");
  const Tensor ab = ops::matmul(a, b);
  const Tensor small = compute(
      {40, 64},
      [&](const std::vector<Axis>& i) {
        return cast(i8, bitwise_and(ab(i[0], i[1]), make_const(i32, 15)));
      },
      "small");
  expect_right_here(program({a, b, c}, ops::matmul(small, c), 64, "two products"), 3, 3);
}

TEST(TileProduct, ExtremesAreExact) {
  constexpr int64_t kM = 32, kN = 32, kK = 128;
  for (const auto& [a, b, x, y] : {std::tuple{i8, i8, -128., -128.},
                                   {i8, i8, 127., -128.},
                                   {u8, i8, 255., -128.},
                                   {i8, u8, -128., 255.},
                                   {u8, u8, 255., 255.}}) {
    const RandomProgram p = product({a, b}, kM, kN, kK);
    const Template t = template_of(p, with_tiles());
    for (const Target& target : here()) {
      const std::vector<NDArray> arrays{NDArray::full({kM, kK}, a, x),
                                        NDArray::full({kK, kN}, b, y),
                                        NDArray::full({kM, kN}, i32, 1)};
      selftest::compiled(target)(t.instantiate(t.default_config()), p.args(), arrays);
      const auto want = static_cast<int32_t>(static_cast<int64_t>(x * y) * kK);
      for (int64_t i = 0; i < kM * kN; ++i) ASSERT_EQ(arrays[2].get(i), want) << p.text;
    }
  }
}

LoweredProgram lowered(const RandomProgram& p, const Target& target) {
  const Template t = template_of(p, target);
  return lower(t.instantiate(t.default_config()), p.args());
}

TEST(TileProduct, TheInterpreterRunsTheSameLoops) {
  for (const RandomProgram& p :
       {product({bf16, bf16}, 33, 50, 70), product({u8, i8}, 32, 32, 64)}) {
    const selftest::Case reference(p, 5);
    const std::vector<NDArray> arrays = reference.fresh_arrays();
    interpret(lowered(p, with_tiles()).main, arrays);
    EXPECT_EQ(reference.difference(arrays), "") << p.text;
  }
}

size_t times(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(TileProduct, TheInstructionsAreThere) {
  const Target target =
      Target::parse("llvm -mcpu=graniterapids -mtriple=x86_64-linux-gnu -threads=2");
  auto assembly = [&](const RandomProgram& p) {
    return emit_llvm({lowered(p, target).main}, target, "s");
  };
  for (const auto& [form, name] : {std::pair<Form, const char*>{{i8, i8}, "tdpbssd"},
                                   {{u8, i8}, "tdpbusd"},
                                   {{i8, u8}, "tdpbsud"},
                                   {{u8, u8}, "tdpbuud"},
                                   {{bf16, bf16}, "tdpbf16ps"},
                                   {{f16, f16}, "tdpfp16ps"}}) {
    const std::string text = assembly(product(form, 256, 256, 256));
    EXPECT_EQ(times(text, name), 2U) << "two tiles side by side\n";
    EXPECT_EQ(times(text, "tileloadd"), 3U) << "sums begin at zero";
    EXPECT_EQ(times(text, "tilezero"), 2U);
    EXPECT_EQ(times(text, "ldtilecfg"), 1U) << "once a task";
    EXPECT_EQ(times(text, "tilerelease"), 1U);
    EXPECT_EQ(times(text, "tilestored"), 2U);
  }
  // Rows that lie as a tile takes them are not copied.
  EXPECT_THAT(
      template_of(product({bf16, bf16}, 256, 256, 256), target)
          .instantiate(template_of(product({bf16, bf16}, 256, 256, 256), target).default_config())
          .to_text(),
      Not(HasSubstr("A.copy")));
  // One step of the reduction is no loop, and yet a product of tiles; nor is the window of a 1x1
  // convolution.
  EXPECT_EQ(times(assembly(product({bf16, bf16}, 64, 64, 32)), "tdpbf16ps"), 2U);
  EXPECT_EQ(times(assembly(convolution(i8, 28, 64, 64, 1, 1)), "tdpbssd"), 2U);
  // A convolution's taps are steps of one product.
  EXPECT_EQ(times(assembly(convolution(bf16, 28, 64, 64, 1)), "tdpbf16ps"), 2U);
}

// Multiply-adds of tiles are a tenth of the work of others, and copies of operands come on top. Tiles side by side would compute
// columns that there are not.
TEST(TileProduct, SmallProductsTakeOneThreadAndSingleTiles) {
  const Target target =
      Target::parse("llvm -mcpu=graniterapids -mtriple=x86_64-linux-gnu -threads=2");
  const auto text = [&](const RandomProgram& p) {
    const Template t = template_of(p, target);
    return t.instantiate(t.default_config()).to_text();
  };
  EXPECT_THAT(text(product({i8, i8}, 8, 512, 128, true)), Not(HasSubstr("parallel")));
  EXPECT_THAT(text(product({i8, i8}, 64, 512, 512, true)), HasSubstr("parallel"));
  EXPECT_THAT(text(product({bf16, bf16, true}, 320, 20, 32)), HasSubstr("parallel"))
      << "rows that lie across lines of memory take long to copy";
  const auto columns = [&](int64_t m, int64_t n) {
    return chosen(template_of(product({bf16, bf16}, m, n, 168), target), "tile_cols");
  };
  EXPECT_EQ(columns(58, 232), 16);
  EXPECT_EQ(columns(58, 256), 32) << "no column is empty";
  EXPECT_EQ(columns(1000, 232), 32) << "they are a small part";
}

TEST(TileProduct, WhatIsNoProductOfTilesIsRefused) {
  const Tensor a = placeholder({32, 64}, f32, "A");
  const Tensor c = compute(
      {32},
      [&](const std::vector<Axis>& i) {
        const Axis k = reduce_axis(64, "k");
        return sum(a(i[0], k), {k});
      },
      "C");
  Schedule s({c});
  s[c].tensorize(s[c].reduce_axis(0), "amx");
  try {
    compile_llvm({lower(s, {a, c}).main}, Target::host());
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("as amx: it is no sum of products of two elements"));
  }
}

}  // namespace
}  // namespace heddle::testing
