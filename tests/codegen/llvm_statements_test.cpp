// Loops, conditions, buffers and modules of the LLVM code generator, on hand-built statements.
#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "codegen/llvm_util.h"
#include "heddle/support/error.h"

namespace heddle::testing {
namespace {

TEST(LlvmStatements, VectorAddOfAnyLaneCountStaysInsideItsArrays) {
  for (int lanes : {1, 2, 3, 4, 5, 7, 8, 11, 12, 16, 24, 31, 48}) {
    const int64_t n = 2 * lanes;
    CompiledModule m = compile(elementwise({f32, f32}, f32, n, lanes,
                                           [](const std::vector<Expr>& x) { return x[0] + x[1]; }));
    GuardedArray<float> a(n), b(n), c(n);
    for (int64_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = 0.5f;
    }
    ASSERT_EQ(call(m, a.data(), b.data(), c.data()), 0);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(c[i], i + 0.5f) << lanes << " lanes, " << i;
  }
}

TEST(LlvmStatements, LoopsOfEveryKindAndExtentRun) {
  for (LoopKind kind :
       {LoopKind::Serial, LoopKind::Parallel, LoopKind::Vectorized, LoopKind::Unrolled}) {
    Buffer n = argument("n", i64, 1), out = argument("out", i64, 100);
    Var i("i"), extent("extent");
    Stmt loop = make_for(i, extent, kind, make_store(out, {i}, i * Expr(3)));
    LoweredFunction f{"loop", {n, out}, make_let(extent, make_load(n, {Expr(0)}), loop)};
    CompiledModule m = compile(f);
    for (int64_t count : {0, 1, 2, 99}) {
      std::vector<int64_t> data(100, -1);
      ASSERT_EQ(call(m, &count, data.data()), 0);
      for (int64_t k = 0; k < 100; ++k) EXPECT_EQ(data[k], k < count ? 3 * k : -1);
    }
  }
}

// out[x] = in[at(x)], where the lanes of a vector of x lie in one pattern wherever it is.
TEST(LlvmStatements, LanesInAPatternAreReadInsideTheirArray) {
  constexpr int64_t kRounds = 4;
  struct Pattern {
    std::function<Expr(const Expr&)> at;
    std::function<int64_t(int64_t)> expected;
  };
  const std::vector<Pattern> patterns = {
      {[](const Expr& x) { return floordiv(x, Expr(2)); }, [](int64_t x) { return x / 2; }},
      {[](const Expr& x) { return floordiv(x * Expr(3) + Expr(1), Expr(4)); },
       [](int64_t x) { return (3 * x + 1) / 4; }},
      {[](const Expr& x) { return floormod(x, Expr(3)); }, [](int64_t x) { return x % 3; }},
      {[](const Expr& x) { return max(min(x - Expr(2), Expr(9)), Expr(0)); },
       [](int64_t x) { return std::clamp<int64_t>(x - 2, 0, 9); }},
      {[](const Expr& x) { return floordiv(x, Expr(2)) * Expr(4) + floormod(x, Expr(2)); },
       [](int64_t x) { return x / 2 * 4 + x % 2; }},
      {[](const Expr& x) {
         return floordiv(x, Expr(4)) * Expr(4) + Expr(3) - floormod(x, Expr(4));
       },
       [](int64_t x) { return x / 4 * 4 + 3 - x % 4; }},
      {[](const Expr& x) { return floordiv(x * Expr(17), Expr(3)); },
       [](int64_t x) { return x * 17 / 3; }},
  };
  for (size_t p = 0; p < patterns.size(); ++p) {
    for (int lanes : {2, 3, 4, 5, 7, 8, 12, 16, 32}) {
      const int64_t n = kRounds * lanes;
      int64_t first = INT64_MAX, last = 0;
      for (int64_t x = 0; x < n; ++x) {
        first = std::min(first, patterns[p].expected(x));
        last = std::max(last, patterns[p].expected(x));
      }
      const int64_t size = last - first + 1;
      Buffer in = argument("in", f32, size), out = argument("out", f32, n);
      Var j("j");
      const auto scaled = [&](const Expr& e) {
        std::vector<VarBinding> lane{{j, make_ramp(j * Expr(lanes), Expr(1), lanes)}};
        return substitute(e, lane);
      };
      const Expr index = scaled(patterns[p].at(j) - Expr(first));
      Stmt body =
          make_store(out, {make_ramp(j * Expr(lanes), Expr(1), lanes)}, make_load(in, {index}));
      CompiledModule m =
          compile({"pattern", {in, out}, make_for(j, kRounds, LoopKind::Serial, body)});
      for (bool at_front : {false, true}) {
        GuardedArray<float> a(size, at_front), b(n);
        for (int64_t i = 0; i < size; ++i) a[i] = static_cast<float>(i + first);
        ASSERT_EQ(call(m, a.data(), b.data()), 0);
        for (int64_t x = 0; x < n; ++x)
          EXPECT_EQ(b[x], static_cast<float>(patterns[p].expected(x)))
              << "pattern " << p << ", " << lanes << " lanes, " << x;
      }
    }
  }
}

TEST(LlvmStatements, NestedParallelLoopsCaptureWhatTheyUse) {
  constexpr int64_t kRows = 37, kColumns = 19;
  Buffer a = argument("a", f32, kRows), out = argument("out", f32, kRows * kColumns);
  Buffer sums = Buffer::make("sums", f32, {Expr(kColumns)}, Scope::Global);
  Var i("i"), j("j"), c("c"), scale("scale", f32);
  Stmt fill = make_for(c, kColumns, LoopKind::Serial, make_store(sums, {c}, cast(f32, c)));
  Stmt inner = make_for(
      j, kColumns, LoopKind::Parallel,
      make_store(out, {i * Expr(kColumns) + j}, make_load(a, {i}) * scale + make_load(sums, {j})));
  Stmt body = make_block({fill, make_for(i, kRows, LoopKind::Parallel, inner)});
  LoweredFunction f{
      "nest", {a, out}, make_let(scale, make_load(a, {Expr(1)}), make_allocate(sums, body))};
  CompiledModule m = compile(f);
  std::vector<float> x(kRows), y(kRows * kColumns);
  std::iota(x.begin(), x.end(), 1.0f);
  ASSERT_EQ(call(m, x.data(), y.data()), 0);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < kColumns; ++k) {
      ASSERT_EQ(y[r * kColumns + k], static_cast<float>(r + 1) * 2 + static_cast<float>(k));
    }
  }
}

TEST(LlvmStatements, TemporariesOfEachKindHold) {
  // 0: registers, 1: stack, 2: too big for the stack, 3: global; each inside a parallel loop too.
  for (int kind = 0; kind < 4; ++kind) {
    for (LoopKind loop : {LoopKind::Serial, LoopKind::Parallel}) {
      const int64_t size = kind == 2 ? 40000 : 16;
      Buffer t = Buffer::make("t", f32, {Expr(size)}, kind == 3 ? Scope::Global : Scope::Local);
      Buffer in = argument("in", f32, 64 * 16), out = argument("out", f32, 64 * 16);
      Var i("i"), j("j");
      const Expr rows = make_ramp(i * Expr(16), Expr(1), 16);
      Stmt write, read;
      if (kind == 0) {
        write = make_store(t, {make_ramp(Expr(0), Expr(1), 16)}, make_load(in, {rows}));
        std::vector<Stmt> reads;
        for (int k = 0; k < 16; ++k) {
          reads.push_back(make_store(out, {i * Expr(16) + Expr(k)}, make_load(t, {Expr(15 - k)})));
        }
        read = make_block(reads);
      } else {
        write = make_for(j, 16, LoopKind::Serial,
                         make_store(t, {j}, make_load(in, {i * Expr(16) + j})));
        Var k("k");
        read = make_for(k, 16, LoopKind::Serial,
                        make_store(out, {i * Expr(16) + k}, make_load(t, {Expr(15) - k})));
      }
      LoweredFunction f{
          "temp", {in, out}, make_for(i, 64, loop, make_allocate(t, make_block({write, read})))};
      CompiledModule m = compile(f);
      std::vector<float> x(64 * 16), y(64 * 16);
      std::iota(x.begin(), x.end(), 0.0f);
      ASSERT_EQ(call(m, x.data(), y.data()), 0);
      for (int r = 0; r < 64; ++r) {
        for (int k = 0; k < 16; ++k) {
          ASSERT_EQ(y[r * 16 + k], x[r * 16 + 15 - k]) << "kind " << kind;
        }
      }
    }
  }
}

TEST(LlvmStatements, PartsOfRegisterChunksAreReadAndWritten) {
  Buffer t = local("t", f32, 24), out = argument("out", f32, 24);
  auto at = [&](int base, int lanes) { return make_ramp(Expr(base), Expr(1), lanes); };
  std::vector<Stmt> s{
      make_store(t, {at(0, 8)}, make_broadcast(Expr(1.0f), 8)),
      make_store(t, {at(8, 16)}, make_broadcast(Expr(2.0f), 16)),
      make_store(t, {at(10, 4)}, make_broadcast(Expr(3.0f), 4)),
      make_store(t, {Expr(3)}, Expr(4.0f)),
      make_store(t, {at(12, 3)}, make_load(t, {at(9, 3)}) + make_broadcast(Expr(10.0f), 3)),
      make_store(out, {at(0, 8)}, make_load(t, {at(0, 8)})),
      make_store(out, {at(8, 16)}, make_load(t, {at(8, 16)}))};
  CompiledModule m = compile({"chunks", {out}, make_allocate(t, make_block(s))});
  std::vector<float> y(24);
  ASSERT_EQ(call(m, y.data()), 0);
  std::vector<float> want(24, 1.0f);
  std::fill(want.begin() + 8, want.end(), 2.0f);
  std::fill(want.begin() + 10, want.begin() + 14, 3.0f);
  want[3] = 4.0f;
  want[12] = 12.0f;
  want[13] = 13.0f;
  want[14] = 13.0f;
  EXPECT_EQ(y, want);
}

TEST(LlvmStatements, WorkspaceThatCannotBeHadIsReportedNotUsed) {
  for (LoopKind kind : {LoopKind::Serial, LoopKind::Parallel}) {
    Buffer out = argument("out", f32, 8);
    Buffer small = Buffer::make("small", f32, {Expr(1000)}, Scope::Global);
    Buffer huge = Buffer::make("huge", f32, {Expr(int64_t{1} << 55)}, Scope::Global);
    Var i("i");
    Stmt body =
        make_block({make_store(huge, {i}, Expr(1.0f)), make_store(out, {i}, make_load(huge, {i}))});
    Stmt loop = make_for(i, 8, kind, make_allocate(huge, body));
    CompiledModule m = compile({"huge", {out}, make_allocate(small, loop)});
    std::vector<float> y(8, -1.0f);
    EXPECT_EQ(call(m, y.data()), 1);
    EXPECT_EQ(y, std::vector<float>(8, -1.0f));
  }
}

TEST(LlvmStatements, IfTakesOneBranch) {
  Buffer out = argument("out", i32, 10);
  Var i("i");
  Stmt s = make_if(i < Expr(4), make_store(out, {i}, make_int(i32, 1)),
                   make_if(i == Expr(7), make_store(out, {i}, make_int(i32, 2))));
  CompiledModule m = compile({"if", {out}, make_for(i, 10, LoopKind::Serial, s)});
  std::vector<int32_t> y(10);
  ASSERT_EQ(call(m, y.data()), 0);
  EXPECT_EQ(y, (std::vector<int32_t>{1, 1, 1, 1, 0, 0, 0, 2, 0, 0}));
}

TEST(LlvmStatements, StridedReversedAndGatheredAccesses) {
  constexpr int kLanes = 8;
  for (int lanes : {3, kLanes, 16}) {
    for (int64_t stride : {-3, -2, -1, 0, 1, 2, 3, 4, 5}) {
      const int64_t span = std::abs(stride) * (lanes - 1) + 1;
      const int64_t first = stride < 0 ? span - 1 : 0;
      Buffer in = argument("in", f32, span), index = argument("index", i64, lanes);
      Buffer out = argument("out", f32, lanes), scattered = argument("scattered", f32, span);
      Buffer gathered = argument("gathered", f32, lanes);
      const Expr all = make_ramp(Expr(0), Expr(1), lanes);
      Expr strided = make_ramp(Expr(first), Expr(stride), lanes);
      std::vector<Stmt> s{make_store(out, {all}, make_load(in, {strided})),
                          make_store(gathered, {all}, make_load(in, {make_load(index, {all})}))};
      if (stride != 0) s.push_back(make_store(scattered, {strided}, make_load(in, {strided})));
      CompiledModule m = compile({"strided", {in, index, out, gathered, scattered}, make_block(s)});
      GuardedArray<float> x(span), y(lanes), g(lanes), z(span);
      GuardedArray<int64_t> at(lanes);
      for (int64_t i = 0; i < span; ++i) x[i] = static_cast<float>(i + 1);
      for (int i = 0; i < lanes; ++i) at[i] = first + stride * i;
      ASSERT_EQ(call(m, x.data(), at.data(), y.data(), g.data(), z.data()), 0);
      for (int i = 0; i < lanes; ++i) {
        const int64_t k = first + stride * i;
        ASSERT_EQ(y[i], x[k]) << lanes << " lanes, stride " << stride;
        ASSERT_EQ(g[i], x[k]);
        if (stride != 0) {
          ASSERT_EQ(z[k], x[k]);
        }
      }
    }
  }
}

// y[k] = x[7 l + at] * k for four k, where `at` is a variable with the value 0, and then 1.
LoweredFunction strided_in_many_stores(const Buffer& x, const Buffer& y) {
  constexpr int kLanes = 8;
  Var at("at");
  std::vector<Stmt> stores;
  for (int k = 0; k < 4; ++k) {
    const Expr read = make_load(x, {make_ramp(at, Expr(7), kLanes)});
    stores.push_back(
        make_store(y, {make_ramp((at * 4 + k) * kLanes, Expr(1), kLanes)}, read * float(k)));
  }
  const Stmt all = make_block(stores);
  return {"strided", {x, y}, make_block({make_let(at, 0, all), make_let(at, 1, all)})};
}

TEST(LlvmStatements, AVectorOfSingleLanesIsLoadedOnceForManyStores) {
  const Buffer x = argument("x", f32, 64), y = argument("y", f32, 64);
  const LoweredFunction f = strided_in_many_stores(x, y);
  CodegenOptions options;
  options.keep_llvm_ir = true;
  const CompiledModule m = compile(f, options);
  size_t loads = 0;
  for (size_t at = 0; (at = m.llvm_ir.find("= load float", at)) != std::string::npos; ++at) ++loads;
  EXPECT_EQ(loads, 2u * 8u);  // not for each of the stores
  std::vector<float> in(64), out(64);
  std::iota(in.begin(), in.end(), 1.0f);
  ASSERT_EQ(call(m, in.data(), out.data()), 0);
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(out[i], in[7 * (i % 8) + i / 32] * static_cast<float>(i / 8 % 4));
}

TEST(LlvmStatements, SingleLanesAreLoadedAgainAfterAStoreToTheirBuffer) {
  const Buffer x = argument("x", f32, 64), y = argument("y", f32, 16);
  const Expr lanes = make_ramp(Expr(0), Expr(7), 8), read = make_load(x, {lanes});
  const CompiledModule m =
      compile({"again",
               {x, y},
               make_block({make_store(y, {make_ramp(Expr(0), Expr(1), 8)}, read),
                           make_store(x, {lanes}, read + 1.0f),
                           make_store(y, {make_ramp(Expr(8), Expr(1), 8)}, read)})});
  std::vector<float> in(64, 3.0f), out(16);
  ASSERT_EQ(call(m, in.data(), out.data()), 0);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], i < 8 ? 3.0f : 4.0f);
}

TEST(LlvmStatements, NontemporalStoresWorkAtAnyAddress) {
  constexpr int64_t kN = 256;
  Buffer in = argument("in", f32, kN), out = argument("out", f32, kN);
  for (int lanes : {4, 8, 16, 5}) {
    Var i("i");
    const Expr at = make_ramp(i * Expr(lanes), Expr(1), lanes);
    CodegenOptions options;
    options.keep_assembly = true;
    CompiledModule m =
        compile({"stream",
                 {in, out},
                 make_for(i, kN / lanes, LoopKind::Parallel,
                          make_store(out, {at}, make_load(in, {at}), StoreHint::NonTemporal))},
                options);
    if (lanes != 5 && test_target().is_x86()) {
      EXPECT_NE(m.assembly.find("movntps"), std::string::npos) << m.assembly;
      EXPECT_NE(m.assembly.find("sfence"), std::string::npos);
    }
    std::vector<float> x(kN), y(kN + 1);
    std::iota(x.begin(), x.end(), 0.0f);
    for (int offset : {0, 1}) {
      std::fill(y.begin(), y.end(), -1.0f);
      ASSERT_EQ(call(m, x.data(), y.data() + offset), 0);
      for (int64_t k = 0; k < kN / lanes * lanes; ++k) ASSERT_EQ(y[k + offset], x[k]);
    }
  }
}

TEST(LlvmStatements, PrefetchIsOneInstruction) {
  Buffer in = argument("in", f32, 100);
  Var i("i");
  CodegenOptions options;
  options.keep_assembly = true;
  CompiledModule m =
      compile({"touch",
               {in},
               make_for(i, 100, LoopKind::Serial, make_prefetch(in, {i * Expr(16) + Expr(64)}))},
              options);
  std::vector<float> x(100);
  EXPECT_EQ(call(m, x.data()), 0);  // far past the end: prefetches do not fault
  if (test_target().is_x86()) {
    EXPECT_NE(m.assembly.find("prefetcht0"), std::string::npos);
  }
}

TEST(LlvmStatements, SeveralFunctionsOfOneModuleMayShareAName) {
  std::vector<LoweredFunction> functions;
  for (int k = 0; k < 3; ++k) {
    Buffer out = argument("out", i32, 4);
    Var i("i");
    functions.push_back(
        {"same",
         {out},
         make_for(i, 4, LoopKind::Parallel, make_store(out, {i}, make_int(i32, k)))});
  }
  CompiledModule m = compile_llvm(functions, test_target());
  ASSERT_EQ(m.entries.size(), 3u);
  for (int k = 0; k < 3; ++k) {
    std::vector<int32_t> y(4, -1);
    void* args[] = {y.data()};
    ASSERT_EQ(m.entries[k](args), 0);
    EXPECT_EQ(y, std::vector<int32_t>(4, k));
  }
}

TEST(LlvmStatements, ThreadsCompileAtTheSameTime) {
  std::atomic<int> wrong{0};
  auto work = [&](int seed) {
    for (int k = 0; k < 20; ++k) {
      const float addend = static_cast<float>(seed * 100 + k);
      CompiledModule m = compile(elementwise(
          {f32}, f32, 19, 8, [&](const std::vector<Expr>& x) { return x[0] + Expr(addend); }));
      std::vector<float> a(19, 1.0f), b(19);
      call(m, a.data(), b.data());
      for (float v : b) wrong += v != 1.0f + addend;
    }
  };
  std::thread first(work, 1), second(work, 2);
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0);
}

TEST(LlvmStatements, CompilingAndDroppingDoesNotLeak) {
  auto once = [] {
    compile(elementwise({f32}, f32, 64, 8,
                        [](const std::vector<Expr>& x) { return x[0] * Expr(2.0f); }));
  };
  auto mappings = [] {
    int lines = 0;
    if (FILE* f = std::fopen("/proc/self/maps", "r")) {
      for (int c; (c = std::fgetc(f)) != EOF;) lines += c == '\n';
      std::fclose(f);
    }
    return lines;
  };
  for (int i = 0; i < 50; ++i) once();
  const size_t heap_before = mallinfo2().uordblks;
  const int maps_before = mappings();
  constexpr int kRounds = 200;
  for (int i = 0; i < kRounds; ++i) once();
  const auto grown = static_cast<int64_t>(mallinfo2().uordblks) - static_cast<int64_t>(heap_before);
  EXPECT_LT(grown, kRounds * 512) << "bytes, over " << kRounds << " modules";
  EXPECT_LT(mappings(), maps_before + 10);
}

TEST(LlvmStatements, MistakesOfTheLoweringAreInternalErrors) {
  Buffer a = argument("a", f32, 4), b = argument("b", f32, 4);
  Var i("i"), j("j");
  EXPECT_THROW(compile({"f", {a}, make_store(a, {j}, Expr(1.0f))}), Error);
  EXPECT_THROW(compile({"f", {a}, make_store(a, {Expr(0)}, make_load(b, {Expr(0)}))}), Error);
}

TEST(LlvmStatements, EmitsForOtherMachines) {
  LoweredFunction f = elementwise({f32, f32}, f32, 100, 16, [](const std::vector<Expr>& x) {
    return x[0] * x[1] + Expr(1.0f);
  });
  const std::string avx512 = emit_llvm({f}, Target::parse("llvm -mcpu=skylake-avx512"), "s");
  EXPECT_NE(avx512.find("zmm"), std::string::npos);
  const std::string sse =
      emit_llvm({f}, Target::parse("llvm -mcpu=x86-64 -mtriple=x86_64-linux-gnu"), "s");
  EXPECT_EQ(sse.find("ymm"), std::string::npos);
  const std::string arm =
      emit_llvm({f}, Target::parse("llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu"), "s");
  EXPECT_NE(arm.find("fmla"), std::string::npos) << arm;
  EXPECT_NE(emit_llvm({f}, Target::host(), "ll").find("define"), std::string::npos);
  EXPECT_GT(emit_llvm({f}, Target::host(), "o").size(), 500u);
  EXPECT_THROW(emit_llvm({f}, Target::host(), "exe"), Error);
}

}  // namespace
}  // namespace heddle::testing
