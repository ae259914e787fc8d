// Kernels over arrays of every type: their text, compiled as host C++ (cuda_host_shim.h), is compared with the
// interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/cuda_host_library.h"
#include "codegen/cuda_kernels.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/interpreter.h"
#include "support/numbers/float8.h"
#include "support/numbers/half.h"

namespace heddle::testing {

inline constexpr int64_t kN = 256;
inline const std::vector<DataType> kTypes{f64, f32, f16, bf16, f8e4m3, f8e5m2, i8,     i16,
                                          i32, i64, u8,  u16,  u32,    u64,    boolean};

/// A kernel of one thread over `kN` elements, and what it says for the message of a failure.
struct Case {
  GpuKernel kernel;
  std::string what;
  bool exact = true;  ///< otherwise within a few ulp
};

/// out[i] = fn(in...[i]), `lanes` at a time.
template <class F>
Case elementwise_case(const std::string& what, const std::vector<DataType>& inputs, DataType output,
                      int lanes, bool exact, F fn) {
  GpuKernel k;
  std::vector<Expr> loads;
  Var i("i");
  const Expr index = lanes == 1 ? i.expr() : make_ramp(i * Expr(lanes), Expr(1), lanes);
  for (size_t a = 0; a < inputs.size(); ++a) {
    k.args.push_back(gpu_buffer("in" + std::to_string(a), inputs[a], kN));
    loads.push_back(make_load(k.args.back(), {index}));
  }
  k.args.push_back(gpu_buffer("out", output, kN));
  k.body = make_for(i, Expr(kN / lanes), LoopKind::Serial,
                    make_store(k.args.back(), {index}, fn(loads)));
  return {k, what + " x" + std::to_string(lanes), exact};
}

// Random bits and special values, without operands for which the operation is undefined.
inline NDArray random_array(DataType t, std::mt19937_64& random, BinaryOp* op, bool second) {
  NDArray a = NDArray::empty({kN}, t);
  const bool divisor = op && second &&
                       (*op == BinaryOp::Div || *op == BinaryOp::Mod || *op == BinaryOp::FloorDiv ||
                        *op == BinaryOp::FloorMod);
  const bool shift = op && second && (*op == BinaryOp::Shl || *op == BinaryOp::Shr);
  auto* bytes = static_cast<uint8_t*>(a.data());
  for (int64_t i = 0; i < kN; ++i) {
    uint64_t bits = random();
    if (t.is_bool()) bits &= 1;
    if (t.is_float() && random() % 4) {
      // Of moderate size: special values meet each other often enough.
      const double v = (static_cast<double>(random() % 20001) - 10000) / 1024;
      const auto f = static_cast<float>(v);
      if (t == f64) std::memcpy(&bits, &v, 8);
      if (t == f32) bits = 0, std::memcpy(&bits, &f, 4);
      if (t == f16) bits = float_to_half(f);
      if (t == bf16) bits = float_to_bfloat16(f);
      if (t == f8e4m3) bits = float_to_e4m3(f);
      if (t == f8e5m2) bits = float_to_e5m2(f);
    }
    if (t.is_integral() && random() % 4 == 0) bits = random() % 2 ? random() % 5 : ~(random() % 5);
    if (t.is_integral() && random() % 16 == 0) bits = uint64_t{1} << (t.bits - 1);
    if (shift) bits = random() % t.bits;
    const auto width = static_cast<size_t>(t.bytes());
    if (divisor && t.is_integral() && (bits << (64 - 8 * width)) == 0) bits = 3;
    if (t.is_bool()) bits &= 1;
    std::memcpy(bytes + i * static_cast<int64_t>(width), &bits, width);
  }
  return a;
}

inline double value_at(const NDArray& a, int64_t i) { return a.get(i); }

inline ::testing::AssertionResult same(const NDArray& want, const NDArray& got, bool exact) {
  const DataType t = want.dtype();
  const auto width = static_cast<size_t>(t.bytes());
  for (int64_t i = 0; i < kN; ++i) {
    const auto* w = static_cast<const uint8_t*>(want.data()) + i * static_cast<int64_t>(width);
    const auto* g = static_cast<const uint8_t*>(got.data()) + i * static_cast<int64_t>(width);
    if (std::memcmp(w, g, width) == 0) continue;
    const double x = value_at(want, i), y = value_at(got, i);
    if (t.is_float()) {
      if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
      const double epsilon = t == f64    ? 0x1p-52
                             : t == f32  ? 0x1p-23
                             : t == f16  ? 0x1p-10
                             : t == bf16 ? 0x1p-7
                                         : 0x1p-2;
      const double smallest = t == f64 ? 0x1p-1070 : t == f16 ? 0x1p-24 : 0x1p-130;
      if (!exact && std::abs(x - y) <= 4 * epsilon * std::abs(x) + smallest) continue;
    }
    return ::testing::AssertionFailure() << "element " << i << ": " << y << ", not " << x;
  }
  return ::testing::AssertionSuccess();
}

inline void check(std::vector<Case> cases, const std::vector<BinaryOp*>& ops = {}) {
  GpuProgram program;
  program.name = "all";
  for (Case& c : cases) {
    c.kernel.name = "k" + std::to_string(program.main.size());
    program.main.push_back(c.kernel);
  }
  const HostLibrary library(program);
  ASSERT_TRUE(library.ready());
  std::mt19937_64 random(7);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    std::vector<NDArray> args;
    for (size_t a = 0; a + 1 < c.kernel.args.size(); ++a) {
      args.push_back(
          random_array(c.kernel.args[a]->dtype, random, ops.empty() ? nullptr : ops[i], a == 1));
    }
    std::vector<NDArray> want = args;
    const DataType out = c.kernel.args.back()->dtype;
    want.push_back(NDArray::zeros({kN}, out));
    args.push_back(NDArray::zeros({kN}, out));
    interpret(LoweredFunction{c.kernel.name, c.kernel.args, c.kernel.body}, want);
    library.run(c.kernel, args);
    EXPECT_TRUE(same(want.back(), args.back(), c.exact)) << c.what;
  }
}

}  // namespace heddle::testing
