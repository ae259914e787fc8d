// Products of a vector with weights of few bits, which threads unpack in registers: any config computes what is
// declared, and the vector is read once for several rows.
#include <gtest/gtest.h>

#include "heddle/codegen/cuda.h"
#include "meta_templates/check_configs.h"

namespace heddle::testing {
namespace {

struct Weights {
  int64_t rows = 0, depth = 0, block = 32;
  int bits = 4;
  DataType type = bf16;
  bool zeros = false;      ///< a number for each block in place of half of the range
  bool is_signed = false;  ///< of 8 bits
  bool halves = false;  ///< the first half of a block's numbers are the lower halves of its bytes
};

/// (rows, depth): (number - zero) * scale, with the lowest bits of a byte first.
Tensor unpacked(const Weights& w) {
  const int64_t in_byte = 8 / w.bits, blocks = (w.depth + w.block - 1) / w.block;
  const Extents bytes = {w.rows, (w.depth + in_byte - 1) / in_byte};
  const Tensor packed = constant(w.is_signed ? NDArray::random(bytes, i8, 1, -128, 127)
                                             : NDArray::random(bytes, u8, 1, 0, 255),
                                 "packed");
  const DataType of_scales = w.halves ? f16 : w.type;
  const Tensor scales =
      constant(NDArray::random({w.rows, blocks}, of_scales, 2, 0.01, 0.1), "scales");
  const Tensor zeros = constant(NDArray::random({w.rows, blocks}, u8, 3, 0, 15), "zeros");
  return compute({w.rows, w.depth}, [&](Axis n, Axis k) {
    Expr number = cast(i32, packed(n, floordiv(k, in_byte)));
    if (w.halves) {
      const Expr inner = floormod(k, w.block), half = Expr(w.block / 2);
      number = cast(i32, packed(n, floordiv(k, w.block) * half + floormod(inner, half)));
      number = bitwise_and(shift_right(number, cast(i32, floordiv(inner, half)) * w.bits),
                           make_const(i32, (1 << w.bits) - 1));
    } else if (w.bits < 8)
      number = bitwise_and(shift_right(number, cast(i32, floormod(k, in_byte)) * w.bits),
                           make_const(i32, (1 << w.bits) - 1));
    const Expr block = floordiv(k, w.block);
    const Expr zero = w.zeros ? cast(i32, zeros(n, block)) : make_const(i32, 1 << (w.bits - 1));
    return cast(w.type, w.is_signed ? number : number - zero) * cast(w.type, scales(n, block));
  });
}

MemoryBound product(const std::string& name, const Weights& w) {
  const Tensor x = placeholder({1, w.depth}, w.type, "x");
  return {name, {ops::matmul(x, unpacked(w), false, true, {.output = w.type})}};
}

TEST(FewBits, EveryFormInAnyConfig) {
  std::vector<MemoryBound> programs;
  for (const DataType t : {bf16, f16, f32}) {
    for (const int bits : {2, 4, 8}) {
      const std::string name = to_string(t) + " of " + std::to_string(bits);
      programs.push_back(
          product(name, {.rows = 37, .depth = 512, .bits = bits, .type = t, .zeros = bits == 4}));
    }
    programs.push_back(
        product(to_string(t) + " with signs",
                {.rows = 24, .depth = 512, .bits = 8, .type = t, .is_signed = true}));
  }
  programs.push_back(product("halves", {.rows = 24, .depth = 768, .halves = true}));
  programs.push_back(
      product("halves of f32", {.rows = 24, .depth = 768, .type = f32, .halves = true}));
  // As GGUF files have them: scales of f16, and weights that are f32 before they are rounded.
  for (const DataType t : {bf16, f32}) {
    const Tensor q = unpacked({.rows = 24, .depth = 768, .type = f32, .halves = true});
    const Tensor w = compute({24, 768}, [&](Axis n, Axis k) { return cast(t, q(n, k)); });
    const Tensor x = placeholder({1, 768}, t, "x");
    programs.push_back(
        {"GGUF in " + to_string(t), {ops::matmul(x, w, false, true, {.output = t})}});
  }
  programs.push_back(product("odd", {.rows = 5, .depth = 1001}));
  programs.push_back(product("short blocks", {.rows = 40, .depth = 768, .block = 4}));
  check(programs, 3, 21);
}

// What is shared by rows is read once for four of them, and pairs of numbers become floats together.
TEST(FewBits, PairsAreScaledTogether) {
  const MemoryBound p = product("wide", {.rows = 5632, .depth = 2048, .block = 128});
  const Template t = make_template(ComputeDag(p.outputs), h200());
  const Schedule s = t.instantiate(t.default_config());
  const GpuProgram g = lower_gpu(s, all_args(s.dag()));
  ASSERT_EQ(g.main.size(), 1u);
  EXPECT_TRUE(g.prepare.empty()) << "nothing is unpacked once";
  EXPECT_EQ(g.main[0].grid[0], 5632 / 2 / 8);
  const std::string text = emit_cuda(g);
  EXPECT_NE(text.find("low16(scaled_bits_bf16(v2 >> 4, 0x000f000fu, "), std::string::npos) << text;
  EXPECT_EQ(text.find("round_bf16("), std::string::npos) << "an element at a time: " << text;
}

// Numbers of a sign, an exponent and a fraction take more instructions than reading them as bf16, and fewer than as f32.
TEST(FewBits, LongFunctionsOfThemAreComputedOnce) {
  const auto unpacked_once = [](DataType t) {
    const Tensor packed = constant(NDArray::random({64, 512}, u8, 1, 0, 255), "packed"),
                 scales = constant(NDArray::random({64, 32}, t, 2, 0.01, 0.1), "scales");
    const Tensor w = compute({64, 1024}, [&](Axis n, Axis k) {
      const auto number = [](int x) { return make_const(i32, x); };
      const Expr all = bitwise_and(
          shift_right(cast(i32, packed(n, floordiv(k, 2))), cast(i32, floormod(k, 2)) * 4),
          number(15));
      const Expr exponent = bitwise_and(shift_right(all, number(1)), number(3));
      const Expr fraction = bitwise_and(all, number(1));
      const Expr size = select(exponent == number(0), fraction,
                               shift_left(fraction + 2, max(exponent - 1, number(0))));
      const Expr value = select(bitwise_and(all, number(8)) == number(0), size, number(0) - size);
      return cast(t, value) * scales(n, floordiv(k, 32));
    });
    const Tensor x = placeholder({1, 1024}, t, "x");
    const Template made =
        make_template(ComputeDag({ops::matmul(x, w, false, true, {.output = t})}), h200());
    const Schedule s = made.instantiate(made.default_config());
    return !lower_gpu(s, all_args(s.dag())).prepare.empty();
  };
  EXPECT_TRUE(unpacked_once(bf16));
  EXPECT_FALSE(unpacked_once(f32));
}

// A sum that keeps a dimension reads nothing that its last axis tells apart: it is no product of unpacked rows.
TEST(FewBits, SumsThatKeepADimensionAreSumsOfRows) {
  const auto knobs = [](bool keeps) {
    const Tensor x = placeholder({4096, 512}, f16, "x");
    const Template t =
        make_template(ComputeDag({ops::sum(x, {1}, keeps)}), Target::parse("cuda -gpu=h200"));
    std::vector<std::string> names;
    for (const Knob& k : t.knobs()) names.push_back(k.name);
    return names;
  };
  EXPECT_EQ(knobs(true), knobs(false));
}

// What no kernel writes is in registers before the wait for the kernel before: what a thread reads first, and nothing of the
// vector. The emulator's results are checked by the tests above.
TEST(FewBits, WeightsAreLoadedBeforeTheWait) {
  const auto loaded = [](const MemoryBound& p) {
    const Template t = make_template(ComputeDag(p.outputs), h200());
    const Schedule s = t.instantiate(t.default_config());
    const GpuProgram g = lower_gpu(s, all_args(s.dag()));
    const std::string text = emit_cuda(g);
    const size_t wait = text.rfind("grid_wait();"), load = text.find("(packed + ");
    EXPECT_NE(wait, std::string::npos) << text;
    EXPECT_EQ(text.find("load_ahead_4(x"), std::string::npos) << text;
    EXPECT_EQ(text.find("load_ahead_16(x"), std::string::npos) << text;
    EXPECT_EQ(text.find("ld.global.nc"), std::string::npos)
        << "ptxas would move it behind the wait";
    return load < wait && text.substr(0, load).ends_with("load_ahead_4");
  };
  EXPECT_TRUE(loaded(product("large", {.rows = 5632, .depth = 2048})));
  EXPECT_TRUE(loaded(product("many", {.rows = 32000, .depth = 4096})));
  EXPECT_FALSE(loaded(product("small", {.rows = 8, .depth = 2048}))) << "from a cache anyway";
}

}  // namespace
}  // namespace heddle::testing
