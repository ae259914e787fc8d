// Products of narrow types on CPUs. Integers use instructions that add up groups of products,
// exactly for all values. 16-bit floats are converted to f32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "heddle/codegen/interpreter.h"
#include "heddle/codegen/llvm.h"
#include "heddle/dag/alternatives.h"
#include "heddle/instruction/instruction.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/ops.h"
#include "meta_templates/expect_right.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Form {
  DataType a, b;
  bool transpose_a = false, transpose_b = false;
};

selftest::RandomProgram product(const Form& f, int64_t m, int64_t n, int64_t k,
                                bool constant = false) {
  selftest::RandomProgram p;
  auto shape = [](bool turned, int64_t x, int64_t y) {
    return Shape{Expr(turned ? y : x), Expr(turned ? x : y)};
  };
  const Shape of_b = shape(f.transpose_b, k, n);
  p.inputs = {placeholder(shape(f.transpose_a, m, k), f.a, "A"),
              constant ? constant_placeholder(of_b, f.b, "B") : placeholder(of_b, f.b, "B")};
  p.outputs = {ops::matmul(p.inputs[0], p.inputs[1], f.transpose_a, f.transpose_b)};
  p.reduce_length = k;
  p.text = to_string(f.a) + (f.transpose_a ? " T " : " N ") + to_string(f.b) +
           (f.transpose_b ? " T " : " N ") + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k);
  return p;
}

selftest::RandomProgram convolution(DataType t, ops::Layout layout, int64_t stride) {
  selftest::RandomProgram p;
  ops::Conv at;
  at.layout = layout;
  at.padding = {1};
  at.stride = {stride};
  const bool last = layout == ops::NHWC;
  p.inputs = {placeholder(last ? Shape{1, 9, 18, 7} : Shape{1, 7, 9, 18}, t, "X"),
              constant_placeholder(last ? Shape{3, 3, 7, 19} : Shape{19, 7, 3, 3}, t, "W")};
  p.outputs = {ops::conv2d(p.inputs[0], p.inputs[1], at)};
  p.reduce_length = 63;
  p.text = "convolution " + to_string(t) + (last ? " nhwc" : " nchw");
  return p;
}

Template template_of(const selftest::RandomProgram& p, const Target& target) {
  return make_template(ComputeDag(p.outputs), target);
}

TEST(NarrowProduct, EveryTypeAndFormInAnyConfig) {
  uint64_t seed = 1;
  for (const auto& [a, b] :
       {std::pair{i8, i8}, {u8, i8}, {i8, u8}, {u8, u8}, {i16, i16}, {bf16, bf16}, {f16, f16}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const int64_t m = 1 + static_cast<int64_t>(seed * 7 % 23);
        const int64_t n = 3 + static_cast<int64_t>(seed * 11 % 47);
        const int64_t k = 2 + static_cast<int64_t>(seed * 13 % 71);
        expect_right(product({a, b, ta, tb}, m, n, k, seed % 3 == 0), seed, 3);
        ++seed;
      }
    }
  }
}

TEST(NarrowProduct, OddAndTinySizes) {
  uint64_t seed = 100;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {2, 8, 1},
                                {1, 16, 3},
                                {6, 16, 129},
                                {13, 24, 64},
                                {7, 33, 2},
                                {70, 17, 66}}) {
    expect_right(product({i8, i8}, m, n, k), ++seed, 3);
    expect_right(product({u8, i8}, m, n, k), ++seed, 3);
    expect_right(product({bf16, bf16}, m, n, k), ++seed, 3);
  }
}

TEST(NarrowProduct, Convolutions) {
  uint64_t seed = 200;
  for (const ops::Layout layout : {ops::NCHW, ops::NHWC}) {
    for (const int64_t stride : {1, 2}) {
      for (const DataType t : {i8, u8, f16})
        expect_right(convolution(t, layout, stride), ++seed, 3);
    }
  }
}

// The graph that is chosen for `target` without records.
Template chosen_template(const selftest::RandomProgram& p, const Target& target) {
  const ComputeDag dag(p.outputs);
  return make_template(apply_alternative(dag, choose_alternative(dag, target, {})), target);
}

// The largest sums of pairs: vpmaddubsw would saturate.
TEST(NarrowProduct, ExtremesAreExact) {
  constexpr int64_t kM = 7, kN = 19, kK = 66;
  for (const auto& [a, b, x, y] : {std::tuple{i8, i8, -128., -128.},
                                   {i8, i8, 127., -128.},
                                   {u8, i8, 255., 127.},
                                   {u8, i8, 255., -128.},
                                   {i8, u8, -128., 255.},
                                   {u8, u8, 255., 255.},
                                   {i16, i16, -32768., -32768.}}) {
    const selftest::RandomProgram p = product({a, b}, kM, kN, kK);
    for (const char* cpu : {"llvm", "llvm -mcpu=cascadelake", "llvm -mcpu=sierraforest"}) {
      // The last: flip_sign, where it is legal.
      const Template all = make_template_of_alternatives(ComputeDag(p.outputs), Target::parse(cpu));
      const Template& t = all.branch(all.num_branches() - 1);
      const std::vector<NDArray> arrays{NDArray::full({kM, kK}, a, x),
                                        NDArray::full({kK, kN}, b, y),
                                        NDArray::full({kM, kN}, i32, 1)};
      selftest::compiled(Target::host())(t.instantiate(t.default_config()), p.args(), arrays);
      // i32 wraps.
      const auto want = static_cast<int32_t>(static_cast<int64_t>(x * y) * kK);
      for (int64_t i = 0; i < kM * kN; ++i) ASSERT_EQ(arrays[2].get(i), want) << cpu << p.text;
    }
  }
}

LoweredProgram lowered(const selftest::RandomProgram& p, const Template& t,
                       std::vector<std::pair<std::string, int64_t>> knobs = {}) {
  Config config = t.default_config();
  for (size_t i = 0; i < t.knobs().size(); ++i) {
    for (const auto& [name, value] : knobs) {
      if (t.knobs()[i].name.ends_with(name)) config.values[i] = value;
    }
  }
  return lower(t.instantiate(config), p.args());
}

std::string assembly(const selftest::RandomProgram& p, const std::string& target) {
  const Target t = Target::parse("llvm " + target);
  return emit_llvm({lowered(p, chosen_template(p, t)).main}, t, "s");
}

TEST(NarrowProduct, TheInstructionOfEachMachine) {
  const selftest::RandomProgram ss = product({i8, i8}, 48, 96, 64),
                                us = product({u8, i8}, 48, 96, 64),
                                su = product({i8, u8}, 48, 96, 64);
  const std::string x86 = " -mtriple=x86_64-linux-gnu", arm = " -mtriple=aarch64-linux-gnu";
  const std::string haswell = assembly(ss, "-mcpu=haswell" + x86);
  EXPECT_THAT(haswell, HasSubstr("vpmaddwd"));
  EXPECT_THAT(haswell, HasSubstr("ymm"));
  EXPECT_THAT(haswell, Not(HasSubstr("vpmaddubsw")));
  EXPECT_THAT(assembly(us, "-mcpu=haswell" + x86), HasSubstr("vpmaddwd"));
  EXPECT_THAT(assembly(ss, "-mcpu=x86-64" + x86), HasSubstr("pmaddwd"));
  EXPECT_THAT(assembly(ss, "-mcpu=skylake-avx512" + x86), HasSubstr("vpmaddwd"));
  const selftest::RandomProgram uu = product({u8, u8}, 48, 96, 64);
  // All of them by fours: none is left to pairs.
  const auto instructions = [](const std::string& text) {
    std::string found;
    for (const char* name :
         {"vpdpbusd", "vpdpbssd", "vpdpbuud", "vpdpwssd", "pmaddwd", "vpmulld"}) {
      if (text.find(name) != std::string::npos)
        found += (found.empty() ? "" : " ") + std::string(name);
    }
    return found;
  };
  const selftest::RandomProgram images[] = {convolution(i8, ops::NCHW, 1),
                                            convolution(i8, ops::NHWC, 2)};
  for (const std::string cpu :
       {"-mcpu=cascadelake", "-mcpu=icelake-server", "-mcpu=znver4",
        "-mcpu=sapphirerapids -mattr=-amx-tile,-amx-bf16,-amx-int8", "-mcpu=alderlake"}) {
    for (const auto& p : {us, su, ss, uu}) {
      const std::string text = assembly(p, cpu + x86);
      EXPECT_EQ(instructions(text), "vpdpbusd") << cpu << " " << p.text;
      EXPECT_THAT(text, HasSubstr(cpu == "-mcpu=alderlake" ? "ymm" : "zmm")) << cpu;
    }
    for (const auto& p : images)
      EXPECT_EQ(instructions(assembly(p, cpu + x86)), "vpdpbusd") << p.text;
  }
  for (const char* cpu : {"-mcpu=sierraforest", "-mcpu=arrowlake-s", "-mcpu=lunarlake"}) {
    EXPECT_EQ(instructions(assembly(us, cpu + x86)), "vpdpbusd") << cpu;
    EXPECT_EQ(instructions(assembly(ss, cpu + x86)), "vpdpbssd") << cpu;
    EXPECT_EQ(instructions(assembly(uu, cpu + x86)), "vpdpbuud") << cpu;
    for (const auto& p : images)
      EXPECT_EQ(instructions(assembly(p, cpu + x86)), "vpdpbssd") << p.text;
  }
  EXPECT_THAT(assembly(ss, "-mcpu=neoverse-n1" + arm), HasSubstr("sdot"));
  EXPECT_THAT(assembly(uu, "-mcpu=neoverse-n1" + arm), HasSubstr("udot"));
  EXPECT_THAT(assembly(us, "-mcpu=neoverse-v1" + arm), HasSubstr("usdot"));
  const std::string image = assembly(convolution(i8, ops::NCHW, 1), "-mcpu=haswell" + x86);
  EXPECT_THAT(image, HasSubstr("vpmaddwd"));
}

// Pairs of bf16 where that is faster, else widened while they are packed; pairs are then for the
// tuner. Sums of f16 stay in f32: what AVX512-FP16 adds up is f16.
TEST(NarrowProduct, Bf16AsEachMachineDoesItBest) {
  const selftest::RandomProgram p = product({bf16, bf16}, 48, 96, 64);
  const std::string x86 = " -mtriple=x86_64-linux-gnu";
  for (const char* cpu : {"-mcpu=cooperlake", "-mcpu=znver4", "-mcpu=znver5"}) {
    const std::string text = assembly(p, cpu + x86);
    EXPECT_THAT(text, HasSubstr("vdpbf16ps")) << cpu;
    EXPECT_THAT(text, HasSubstr("zmm")) << cpu;
    EXPECT_THAT(text, Not(HasSubstr("vfmadd"))) << cpu;
  }
  EXPECT_EQ(
      chosen(template_of(product({bf16, bf16}, 4, 96, 64), Target::parse("llvm -mcpu=znver4")),
             "dot"),
      1)
      << "four rows do not pay for a copy";
  // Golden Cove where a hypervisor hides its tiles.
  const std::string golden = "-mcpu=sapphirerapids -mattr=-amx-tile,-amx-bf16,-amx-int8" + x86;
  const Target wide = Target::parse("llvm " + golden);
  EXPECT_THAT(assembly(p, golden), Not(HasSubstr("vdpbf16ps")));
  EXPECT_THAT(emit_llvm({lowered(p, template_of(p, wide), {{"dot", 2}}).main}, wide, "s"),
              HasSubstr("vdpbf16ps"));
  EXPECT_EQ(template_of(p, Target::parse("llvm -mcpu=icelake-server")).knob_index("dot"), -1);
  EXPECT_EQ(template_of(product({f16, f16}, 48, 96, 64), wide).knob_index("dot"), -1);
}

// LLVM would add up the products of several steps first, which needs registers that a tile has left
// none of (codegen/llvm/jit/machine.cpp).
TEST(NarrowProduct, AccumulatorsStayInRegisters) {
  const std::string text =
      assembly(product({i8, i8}, 48, 96, 64), "-mcpu=znver3 -mtriple=x86_64-linux-gnu");
  EXPECT_THAT(text, HasSubstr("vpmaddwd"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool vector = line.find("ymm") != std::string::npos;
    EXPECT_FALSE(vector && line.find("(%rsp)") != std::string::npos) << line;
  }
}

constexpr const char* kNewer[] = {"llvm -mcpu=cooperlake -threads=2", "llvm -mcpu=alderlake",
                                  "llvm -mcpu=sierraforest"};

// The interpreter and the code generator's expansion run schedules for instructions that this
// machine does not have. The loops are the same for all machines.
TEST(NarrowProduct, GroupsOfFourAreTheSameSum) {
  for (const auto& [cpu, form] :
       {std::pair<const char*, Form>{"llvm -mcpu=cascadelake", {u8, i8}},
        {"llvm -mcpu=cascadelake", {i8, i8}},
        {"llvm -mcpu=znver4", {i8, u8, true, false}},
        {"llvm -mcpu=alderlake", {u8, u8, true, false}},
        {"llvm -mcpu=sierraforest", {u8, u8, false, true}},
        {"llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu", {i8, i8, false, true}}}) {
    const selftest::RandomProgram p = product(form, 9, 37, 26);
    const selftest::Case reference(p, 7);
    for (const int64_t broadcasts : {0, 1}) {
      const std::vector<NDArray> arrays = reference.fresh_arrays();
      const Target target = Target::parse(cpu);
      const Template t =
          make_template_of_alternatives(ComputeDag(p.outputs), target)
              .branch(form.a == form.b && !adds_products(target, i32, form.a, form.a, 4) ? 1 : 0);
      interpret(lowered(p, t, {{"dot", 4}, {"pack_broadcasts", broadcasts}}).main, arrays);
      EXPECT_EQ(reference.difference(arrays), "") << p.text;
    }
  }
}

TEST(NarrowProduct, AnyConfigForNewerCpusRunsWhereThereIsNoInstruction) {
  uint64_t seed = 300;
  for (const char* cpu : kNewer) {
    for (const auto& [a, b] : {std::pair{i8, i8}, {u8, i8}, {i8, u8}, {u8, u8}, {bf16, bf16}}) {
      const bool ta = ++seed % 2 == 0, tb = seed % 3 == 0;
      const selftest::RandomProgram p = product({a, b, ta, tb}, 13, 37, 67, seed % 4 == 0);
      const Target target = Target::parse(cpu);
      const Template all = make_template_of_alternatives(ComputeDag(p.outputs), target);
      EXPECT_EQ(all.num_branches() > 1,
                a == b && a != bf16 && !adds_products(target, i32, a, a, 4));
      const Template& t = all.branch(all.num_branches() - 1);
      const selftest::Case reference(p, seed);
      Rng rng(seed);
      expect_right(p, reference, t, t.default_config());
      expect_right(p, reference, t, selftest::random_config(t, rng));
    }
  }
}

TEST(NarrowProduct, GroupsStayWholeWhereTheReductionIsCut) {
  const selftest::RandomProgram p = product({i8, i8}, 16, 32, 96);
  const Template t = template_of(p, Target::parse("llvm -mcpu=haswell"));
  Config config = t.default_config();
  auto set = [&](const char* name, int64_t value) {
    config.values[static_cast<size_t>(t.knob_index(name))] = value;
  };
  set("reduction", 1);
  set("k_block", 3);
  EXPECT_THAT(t.why_invalid(config), HasSubstr("whole groups"));
  set("dot", 1);
  EXPECT_EQ(t.why_invalid(config), "");
  set("dot", 2);
  set("k_block", 32);
  EXPECT_EQ(t.why_invalid(config), "");
}

// Half floats are widened while they are packed: no conversion is left in the inner loop.
TEST(NarrowProduct, HalfFloatsAreWidenedOnce) {
  for (const DataType type : {bf16, f16}) {
    const selftest::RandomProgram p = product({type, type}, 64, 256, 256);
    const Target target = Target::parse("llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -threads=1");
    const std::string steps = [&] {
      const Template t = template_of(p, target);
      return t.instantiate(t.default_config()).to_text();
    }();
    EXPECT_THAT(steps, HasSubstr("A.copy.widen(f32)"));
    EXPECT_THAT(steps, HasSubstr("B.copy.widen(f32)"));
  }
}

// The image of a block of channels is copied with its padding for the tiles of a product, which read each element again and again.
TEST(NarrowProduct, PaddedImagesAreWidenedWhereTheyAreCopied) {
  const auto grouped = [](DataType type) {
    selftest::RandomProgram p;
    ops::Conv at;
    at.layout = ops::NHWC;
    at.padding = {1};
    at.groups = 2;
    p.inputs = {placeholder({1, 9, 9, 64}, type, "X"),
                constant_placeholder({3, 3, 32, 64}, type, "W")};
    p.outputs = {ops::conv2d(p.inputs[0], p.inputs[1], at)};
    p.reduce_length = 288;
    p.text = "two groups of " + to_string(type);
    return p;
  };
  const auto steps = [&](DataType type, const char* target) {
    const Template t = template_of(grouped(type), Target::parse(target));
    return t.instantiate(t.default_config()).to_text();
  };
  EXPECT_THAT(steps(f16, "llvm -mcpu=haswell -threads=1"), HasSubstr("pad.widen(f32)"));
  EXPECT_THAT(steps(f16, "llvm -mcpu=sapphirerapids -threads=1"), HasSubstr("pad.widen(f32)"));
  EXPECT_THAT(steps(bf16, "llvm -mcpu=sapphirerapids -threads=1"), Not(HasSubstr("pad.widen")));
  EXPECT_THAT(steps(f32, "llvm -mcpu=haswell -threads=1"), Not(HasSubstr("pad.widen")));
  expect_right(grouped(f16), 300, 12);
  // Records of before there was the knob have its default, wherever the image is computed.
  const Template t = template_of(grouped(f16), Target::parse("llvm -mcpu=haswell -threads=1"));
  Config elsewhere = t.default_config();
  bool found = false;
  for (size_t k = 0; k < t.knobs().size(); ++k) {
    const std::vector<int64_t>& values = t.knobs()[k].values;
    if (!t.knobs()[k].name.ends_with("location") || values.size() < 2) continue;
    found = true;
    elsewhere.values[k] = *std::min_element(values.begin(), values.end());
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(t.why_invalid(elsewhere), "");
}

}  // namespace
}  // namespace heddle::testing
