// Loop nests that were compiled before are called, not compiled again.
#include <gtest/gtest.h>

#include <thread>

#include "codegen/llvm_util.h"

namespace heddle::testing {
namespace {

constexpr int64_t kSize = 100;

struct Program {
  LoweredFunction function;
  Buffer in, between, out;
};

// out[i] = (in[i] + a) * b, in two nests with a temporary of the heap between them.
Program two_nests(float a, float b, LoopKind kind = LoopKind::Serial) {
  Program p{{}, argument("in", f32, kSize), {}, argument("out", f32, kSize)};
  p.between = Buffer::make("between", f32, {Expr(kSize)}, Scope::Global);
  const Var i("i"), j("j");
  const Stmt first =
      make_for(i, kSize, kind, make_store(p.between, {i}, make_load(p.in, {i}) + Expr(a)));
  const Stmt second =
      make_for(j, kSize, kind, make_store(p.out, {j}, make_load(p.between, {j}) * Expr(b)));
  p.function = {"two", {p.in, p.out}, make_allocate(p.between, make_block({first, second}))};
  return p;
}

void expect_works(const CompiledModule& m, float a, float b) {
  std::vector<float> in(kSize), out(kSize);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  ASSERT_EQ(call(m, in.data(), out.data()), 0);
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], (in[i] + a) * b) << i;
}

class LlvmNests : public ::testing::Test {
 protected:
  void SetUp() override { release_code_cache(); }
  void TearDown() override { release_code_cache(); }
};

TEST_F(LlvmNests, TheOneThatDiffersIsCompiled) {
  const CompiledModule first = compile(two_nests(1, 2).function);
  EXPECT_EQ(first.nests, 2);
  EXPECT_EQ(first.reused_nests, 0);
  const CompiledModule same = compile(two_nests(1, 2).function);
  EXPECT_EQ(same.reused_nests, 2);
  const CompiledModule other = compile(two_nests(1, 3).function);
  EXPECT_EQ(other.reused_nests, 1);
  const CompiledModule parallel = compile(two_nests(1, 3, LoopKind::Parallel).function);
  EXPECT_EQ(parallel.reused_nests, 0);
  expect_works(first, 1, 2);
  expect_works(same, 1, 2);
  expect_works(other, 1, 3);
  expect_works(parallel, 1, 3);
}

TEST_F(LlvmNests, CodeLivesAsLongAsAnybodyCallsIt) {
  CompiledModule last;
  {
    const CompiledModule first = compile(two_nests(1, 2).function);
    last = compile(two_nests(1, 2).function);
    ASSERT_EQ(last.reused_nests, 2);
  }
  release_code_cache();
  EXPECT_EQ(compile(two_nests(1, 2).function).reused_nests, 0);  // nothing is remembered
  expect_works(last, 1, 2);
}

TEST_F(LlvmNests, TwiceInOneProgramIsCompiledOnce) {
  const Buffer a = argument("a", f32, kSize), b = argument("b", f32, kSize);
  const Buffer c = argument("c", f32, kSize);
  auto add_one = [](const Buffer& from, const Buffer& to) {
    const Var i("i");
    return make_for(i, kSize, LoopKind::Serial,
                    make_store(to, {i}, make_load(from, {i}) + Expr(1.0f)));
  };
  const CompiledModule m =
      compile({"chain", {a, b, c}, make_block({add_one(a, b), add_one(b, c)})});
  EXPECT_EQ(m.nests, 2);
  EXPECT_EQ(m.reused_nests, 1);
  std::vector<float> x(kSize, 1), y(kSize), z(kSize);
  ASSERT_EQ(call(m, x.data(), y.data(), z.data()), 0);
  EXPECT_EQ(z, std::vector<float>(kSize, 3));
}

TEST_F(LlvmNests, WhatReadsItsSurroundingsStaysWhereItIs) {
  const Buffer a = argument("a", f32, kSize), b = argument("b", f32, kSize);
  const Buffer n = argument("n", i64, 1);
  const Var i("i"), j("j"), scale("scale");
  const Expr value = cast(f32, Expr(scale));
  const Stmt first = make_for(i, kSize, LoopKind::Serial, make_store(a, {i}, value));
  const Stmt second =
      make_for(j, kSize, LoopKind::Serial, make_store(b, {j}, make_load(a, {j}) + value));
  const CompiledModule m = compile(
      {"let", {n, a, b}, make_let(scale, make_load(n, {Expr(0)}), make_block({first, second}))});
  EXPECT_EQ(m.nests, 0);
  const int64_t three = 3;
  std::vector<float> x(kSize), y(kSize);
  ASSERT_EQ(call(m, &three, x.data(), y.data()), 0);
  EXPECT_EQ(y, std::vector<float>(kSize, 6));
}

TEST_F(LlvmNests, CanBeTurnedOff) {
  CodegenOptions options;
  options.reuse_nests = false;
  EXPECT_EQ(compile(two_nests(1, 2).function, options).nests, 0);
  options.reuse_nests = true;
  options.keep_llvm_ir = true;  // the text is of the whole program
  const CompiledModule m = compile(two_nests(1, 2).function, options);
  EXPECT_EQ(m.nests, 0);
  EXPECT_EQ(m.llvm_ir.find("nest"), std::string::npos);
}

TEST_F(LlvmNests, ThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 8; ++i) {
        const auto b = static_cast<float>(i % 3);
        expect_works(compile(two_nests(1, b).function), 1, b);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(LlvmNests, AMemoryErrorWithinOneReachesTheCaller) {
  // More than any machine has, allocated within the first nest.
  const Buffer out = argument("out", f32, kSize);
  const Buffer huge = Buffer::make("huge", f32, {Expr(int64_t{1} << 60)}, Scope::Global);
  const Var i("i"), j("j");
  const Stmt first =
      make_for(i, 1, LoopKind::Serial,
               make_allocate(huge, make_block({make_store(huge, {i}, Expr(1.0f)),
                                               make_store(out, {i}, make_load(huge, {i}))})));
  const Stmt second = make_for(j, kSize, LoopKind::Serial, make_store(out, {j}, Expr(2.0f)));
  const CompiledModule m = compile({"fails", {out}, make_block({first, second})});
  EXPECT_EQ(m.nests, 2);
  std::vector<float> x(kSize, 1);
  EXPECT_NE(call(m, x.data()), 0);
  EXPECT_EQ(x.back(), 1);  // what comes after it did not run
}

}  // namespace
}  // namespace heddle::testing
