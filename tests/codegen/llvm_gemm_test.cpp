// A register-tiled matrix product as lowering produces it: the tile unrolled, accumulators in a
// Local buffer. The tests check that the accumulators stay in registers.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <sstream>

#include "codegen/llvm_util.h"

namespace heddle::testing {
namespace {

constexpr int64_t kM = 96, kN = 256, kK = 256;

// C[kM, kN] = A[kM, kK] B[kK, kN] in tiles of `rows` x (vectors * lanes).
LoweredFunction tiled_gemm(int rows, int vectors, int lanes) {
  Buffer a = argument("A", f32, kM * kK), b = argument("B", f32, kK * kN);
  Buffer c = argument("C", f32, kM * kN);
  const int width = vectors * lanes;
  Buffer acc = local("acc", f32, rows * width);
  Var io("io"), jo("jo"), k("k");
  auto acc_at = [&](int r, int v) {
    return make_ramp(Expr(r * width + v * lanes), Expr(1), lanes);
  };
  const Expr row = io * Expr(rows), column = jo * Expr(width);
  std::vector<Stmt> zero, update, write;
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      zero.push_back(make_store(acc, {acc_at(r, v)}, make_broadcast(Expr(0.0f), lanes)));
      Expr x = make_broadcast(make_load(a, {(row + Expr(r)) * Expr(kK) + k}), lanes);
      Expr y = make_load(b, {make_ramp(k * Expr(kN) + column + Expr(v * lanes), Expr(1), lanes)});
      update.push_back(make_store(acc, {acc_at(r, v)}, make_load(acc, {acc_at(r, v)}) + x * y));
      Expr out = make_ramp((row + Expr(r)) * Expr(kN) + column + Expr(v * lanes), Expr(1), lanes);
      write.push_back(make_store(c, {out}, make_load(acc, {acc_at(r, v)})));
    }
  }
  Stmt tile = make_block(
      {make_block(zero), make_for(k, kK, LoopKind::Serial, make_block(update)), make_block(write)});
  Stmt body = make_for(io, kM / rows, LoopKind::Serial,
                       make_for(jo, kN / width, LoopKind::Serial, make_allocate(acc, tile)));
  return {"gemm", {a, b, c}, body};
}

struct InnerLoop {
  int fma = 0, stack = 0, instructions = 0;
};

// The block of the assembly with the most multiply-adds.
InnerLoop inner_loop(const std::string& assembly) {
  InnerLoop best, now;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != '\t') {
      now = {};
      continue;
    }
    if (line.size() < 2 || line[1] == '.' || line[1] == '#') continue;
    ++now.instructions;
    now.fma += line.find("vfmadd") != std::string::npos;
    now.stack += line.find("(%rsp") != std::string::npos || line.find("(%rbp") != std::string::npos;
    if (now.fma > best.fma || (now.fma == best.fma && now.fma > 0)) best = now;
    if (line[1] == 'j') now = {};  // the end of the block
  }
  return best;
}

double gflops(const CompiledModule& m, const float* a, const float* b, float* c) {
  double best = 1e30;
  for (int round = 0; round < 200; ++round) {
    const auto start = std::chrono::steady_clock::now();
    call(m, a, b, c);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * kM * kN * kK / best * 1e-9;
}

TEST(LlvmGemm, AccumulatorsStayInRegisters) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN), want(kM * kN);
  for (float& v : a) v = uniform(random);
  for (float& v : b) v = uniform(random);
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t k = 0; k < kK; ++k) {
      for (int64_t j = 0; j < kN; ++j) want[i * kN + j] += a[i * kK + k] * b[k * kN + j];
    }
  }
  const bool wide = test_target().vector_bytes >= 64;
  for (int opt_level : {1, 2}) {
    CodegenOptions options;
    options.opt_level = opt_level;
    CompiledModule m;
    CodegenTimes times{1e9, 1e9, 1e9, 1e9};
    for (int repeat = 0; repeat < 20; ++repeat) {
      m = compile(wide ? tiled_gemm(12, 2, 16) : tiled_gemm(6, 2, 8), options);
      times.build_ir = std::min(times.build_ir, m.times.build_ir);
      times.optimize = std::min(times.optimize, m.times.optimize);
      times.codegen = std::min(times.codegen, m.times.codegen);
      times.link = std::min(times.link, m.times.link);
    }
    ASSERT_EQ(call(m, a.data(), b.data(), c.data()), 0);
    for (size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], want[i], 1e-3);
    std::printf("opt %d: build_ir %.2f optimize %.2f codegen %.2f link %.2f ms; %.1f GFLOPS\n",
                opt_level, times.build_ir, times.optimize, times.codegen, times.link,
                gflops(m, a.data(), b.data(), c.data()));
    if (!test_target().has("fma")) continue;
    options.keep_assembly = true;
    m = compile(wide ? tiled_gemm(12, 2, 16) : tiled_gemm(6, 2, 8), options);
    const InnerLoop loop = inner_loop(m.assembly);
    EXPECT_GE(loop.fma, wide ? 24 : 12);
    EXPECT_EQ(loop.stack, 0) << m.assembly;
    EXPECT_LE(loop.instructions, loop.fma * 2 + 14) << m.assembly;
  }
}

}  // namespace
}  // namespace heddle::testing
