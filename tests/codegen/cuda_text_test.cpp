// The text of kernels: against the files of tests/codegen/cuda, which HEDDLE_UPDATE=1 rewrites, and
// through NVRTC for every architecture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "codegen/cuda_kernels.h"
#include "heddle/codegen/cuda.h"
#include "heddle/driver/build.h"
#include "heddle/lower/lower.h"
#include "heddle/support/error.h"
#include "source_dir.h"

namespace heddle::testing {
namespace {

const std::vector<std::string> kArchitectures{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"};

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = source_dir() + "/tests/codegen/cuda/" + name + ".cu";
  if (const char* update = std::getenv("HEDDLE_UPDATE"); update && *update == '1') {
    std::ofstream(path) << text;
    return;
  }
  std::ostringstream file;
  file << std::ifstream(path).rdbuf();
  EXPECT_EQ(file.str(), text) << path << " differs: look at it, then run with HEDDLE_UPDATE=1";
}

/// Compiles for every architecture: nothing spilled, at most `registers`.
void expect_compiles(const std::string& text, int registers) {
  setenv("HEDDLE_CUBIN_CACHE", "off", 1);
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const std::string& arch : kArchitectures) {
    const cuda::Cubin cubin = cuda::compile_cuda(text, arch);
    ASSERT_FALSE(cubin.kernels.empty()) << cubin.log;
    for (const cuda::KernelResources& k : cubin.kernels) {
      EXPECT_EQ(k.spill_stores + k.spill_loads + k.local_bytes, 0) << k.kernel << " for " << arch;
      EXPECT_LE(k.registers, registers) << k.kernel << " for " << arch;
      EXPECT_GT(k.registers, 0) << k.kernel << " for " << arch;
    }
  }
}

TEST(CudaText, CopyWithTail) {
  const std::string text = emit_cuda(one_kernel(copy_with_tail(1000)));
  expect_golden("copy", text);
  expect_compiles(text, 16);
}

TEST(CudaText, VectorsOfFloats) {
  const std::string text = emit_cuda(one_kernel(vector_gelu(f32)));
  expect_golden("gelu_f32", text);
  expect_compiles(text, 32);
}

TEST(CudaText, VectorsOfBfloat16) {
  const std::string text = emit_cuda(one_kernel(vector_gelu(bf16)));
  expect_golden("gelu_bf16", text);
  expect_compiles(text, 40);
}

TEST(CudaText, BlockReduction) {
  const std::string text = emit_cuda(one_kernel(row_sum()));
  expect_golden("row_sum", text);
  expect_compiles(text, 32);
}

// The lowered sum of rows, or of all elements by parts, of 64 threads.
GpuProgram lowered_sum(LoopKind rows, bool to_one_value) {
  const Tensor x = placeholder({8, 1024}, f32, "x");
  const Axis i = reduce_axis(8, "i"), k = reduce_axis(1024, "k");
  const Tensor out =
      to_one_value ? compute(
                         {}, [&](const std::vector<Axis>&) { return sum(x(i, k), {i, k}); }, "out")
                   : compute({8}, [&](Axis r) { return sum(x(r, k), k); }, "out");
  Schedule s({out}, Target::parse("cuda -gpu=h200"));
  StageRef last = s[out];
  StageRef host = to_one_value ? last.rfactor(last.reduce_axis(0), 1, false) : last;
  StageRef row = host.cache_write();
  StageRef part = row.rfactor(row.reduce_axis(row.num_reduce_axes() - 1), 64, true);
  host.bind(host.axis(0), rows);
  row.compute_at(host, host.axis(0));
  row.bind(row.reduce_axis(0), LoopKind::ThreadX);
  part.compute_at(host, host.axis(0));
  part.bind(part.axis(0), LoopKind::ThreadX);
  if (to_one_value) last.by_last_block();
  return lower_gpu(s, {x, out}, {.name = to_one_value ? "sum_of_all" : "row_sum"});
}

TEST(CudaText, RowsThatClustersShare) {
  const std::string text = emit_cuda(lowered_sum(LoopKind::clusters(2), false));
  expect_golden("cluster_row_sum", text);
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const char* arch : {"sm_90a", "sm_100a"}) {
    for (const cuda::KernelResources& k : cuda::compile_cuda(text, arch).kernels) {
      EXPECT_EQ(k.spill_stores + k.spill_loads + k.local_bytes, 0) << arch;
      EXPECT_LE(k.registers, 32) << arch;
    }
  }
}

TEST(CudaText, ClustersNeedAGpuThatHasThem) {
  const Tensor x = placeholder({2, 64}, f32, "x");
  const Tensor y = compute({2, 64}, [&](Axis i, Axis j) { return x(i, j) + 1.f; }, "y");
  Schedule s({y}, Target::parse("cuda -gpu=a100"));
  s[y].bind(s[y].axis(0), LoopKind::clusters(2)).bind(s[y].axis(1), LoopKind::ThreadX);
  try {
    build(s, {x, y});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("clusters of blocks in kernel 'kernel', which sm_80 "
                                               "has not: sm_90 and later have"));
  }
}

TEST(CudaText, PartsThatTheLastBlockCombines) {
  const std::string text = emit_cuda(lowered_sum(LoopKind::BlockX, true));
  expect_golden("last_block", text);
  expect_compiles(text, 32);
}

TEST(CudaText, MatmulWithSharedMemoryAndAsynchronousCopies) {
  const std::string text = emit_cuda(one_kernel(simt_matmul()));
  expect_golden("matmul", text);
  expect_compiles(text, 128);
}

TEST(CudaText, MatmulOnTensorCores) {
  const std::string text = emit_cuda(one_kernel(mma_matmul(f16)));
  expect_golden("mma_f16", text);
  expect_compiles(text, 96);
  expect_compiles(emit_cuda(one_kernel(mma_matmul(bf16))), 96);
}

TEST(CudaText, SameProgramSameText) {
  EXPECT_EQ(emit_cuda(one_kernel(simt_matmul())), emit_cuda(one_kernel(simt_matmul())));
}

/// A kernel of one thread whose body is `body`.
GpuProgram one_thread(std::vector<Buffer> args, Stmt body) {
  GpuKernel k;
  k.name = "k";
  k.args = std::move(args);
  k.body = std::move(body);
  return one_kernel(k);
}

// A compiler may move loads through __restrict__ pointers across barriers: it is a promise that no
// other thread stores there.
TEST(CudaText, WhatThreadsPassOnInMemoryHasAPlainPointer) {
  const Buffer passed = gpu_buffer("passed", f32, 2), out = gpu_buffer("out", f32, 2);
  for (const bool barrier : {false, true}) {
    Var i("i"), j("j");
    GpuProgram p = one_thread(
        {passed, out},
        make_block(
            {thread_loop(LoopKind::ThreadX, i, 2, make_store(passed, {i.expr()}, Expr(1.0f))),
             barrier ? make_sync(SyncKind::Block) : Stmt(),
             thread_loop(LoopKind::ThreadX, j, 2,
                         make_store(out, {j.expr()}, make_load(passed, {1 - j.expr()})))}));
    p.main[0].block = {2, 1, 1};
    const std::string text = emit_cuda(p);
    EXPECT_EQ(text.find("float* __restrict__ passed") == std::string::npos, barrier) << text;
    EXPECT_NE(text.find("float* __restrict__ out"), std::string::npos) << text;
  }
}

TEST(CudaText, IndicesAreAsWideAsTheyMustBe) {
  const Buffer a = gpu_buffer("a", f32, int64_t{1} << 33), b = gpu_buffer("b", f32, 1 << 20);
  Var i("i"), j("j");
  Stmt body =
      make_for(i, Expr(int64_t{1} << 13), LoopKind::Serial,
               make_for(j, Expr(int64_t{1} << 20), LoopKind::Serial,
                        make_store(a, {i * Expr(int64_t{1} << 20) + j}, make_load(b, {j.expr()}))));
  EXPECT_THAT(emit_cuda(one_thread({a, b}, body)),
              ::testing::HasSubstr("a[(long long)i * 1048576 + j] = b[j];"));
}

TEST(CudaText, DivisionsOfWhatIsNeverNegative) {
  const Buffer a = gpu_buffer("a", f32, 4096), b = gpu_buffer("b", f32, 4096);
  Var i("i");
  const auto text = [&](const Expr& index) {
    return emit_cuda(
        one_thread({a, b}, make_for(i, Expr(100), LoopKind::Serial,
                                    make_store(a, {i.expr()}, make_load(b, {index})))));
  };
  EXPECT_THAT(text(floordiv(i, Expr(7))), ::testing::HasSubstr("b[(int)((unsigned)i / 7u)]"));
  EXPECT_THAT(text(floormod(i, Expr(7))), ::testing::HasSubstr("b[(int)((unsigned)i % 7u)]"));
  EXPECT_THAT(text(floordiv(i - Expr(50), Expr(8)) + Expr(9)),
              ::testing::HasSubstr("b[((i - 50) >> 3) + 9]"));
  EXPECT_THAT(text(floordiv(i - Expr(50), Expr(7)) + Expr(9)),
              ::testing::HasSubstr("b[floor_div_i32(i - 50, 7) + 9]"));
}

TEST(CudaText, VectorsOnlyWhereTheyAreAligned) {
  const Buffer a = gpu_buffer("a", f32, 4096), b = gpu_buffer("b", f32, 4096);
  Var i("i");
  const auto text = [&](const Expr& base) {
    const Expr run = make_ramp(base, Expr(1), 6);
    return emit_cuda(one_thread({a, b}, make_for(i, Expr(100), LoopKind::Serial,
                                                 make_store(a, {run}, make_load(b, {run})))));
  };
  const std::string four = text(i * Expr(8)), two = text(i * Expr(6)), one = text(i * Expr(5));
  EXPECT_THAT(four, ::testing::HasSubstr("*(float4*)(a + "));
  EXPECT_THAT(four, ::testing::HasSubstr("*(float2*)(a + "));
  EXPECT_THAT(two, ::testing::HasSubstr("*(float2*)(a + "));
  EXPECT_THAT(two, ::testing::Not(::testing::HasSubstr("float4")));
  EXPECT_THAT(one, ::testing::Not(::testing::HasSubstr("float2")));
}

TEST(CudaText, LanesThatShareElementsLoadThemAsOneVector) {
  const Buffer a = gpu_buffer("a", bf16, 4096), b = gpu_buffer("b", u8, 4096);
  Var i("i");
  const auto text = [&](int64_t step, int64_t of_one) {
    const Expr read =
        make_broadcast(i * Expr(step), 8) +
        floordiv(make_ramp(Expr(0), Expr(1), 8), make_const(i64.with_lanes(8), of_one));
    const Expr run = make_ramp(i * Expr(8), Expr(1), 8);
    const Expr few = make_binary(BinaryOp::BitAnd, cast(i32.with_lanes(8), make_load(b, {read})),
                                 make_const(i32.with_lanes(8), 15));
    return emit_cuda(one_thread(
        {a, b},
        make_for(i, Expr(100), LoopKind::Serial,
                 make_store(a, {run}, cast(bf16.with_lanes(8), few) * make_load(a, {run})))));
  };
  EXPECT_THAT(text(4, 2), ::testing::HasSubstr("*(const unsigned*)(b + "));
  EXPECT_THAT(text(4, 2), ::testing::Not(::testing::HasSubstr("(float)")));
  EXPECT_THAT(text(3, 2), ::testing::Not(::testing::HasSubstr("*(const unsigned*)(b + ")));
  EXPECT_THAT(text(4, 3), ::testing::Not(::testing::HasSubstr("*(const unsigned*)(b + ")))
      << "three elements";
}

// A load behind one condition is predicated, and the next ones need not wait for it.
TEST(CudaText, LoadsWaitForOneCondition) {
  const Buffer a = gpu_buffer("a", f32, 4096), b = gpu_buffer("b", f32, 4096);
  Var i("i");
  const auto text = [&](const Expr& condition, const Expr& value) {
    return emit_cuda(
        one_thread({a, b}, make_for(i, Expr(100), LoopKind::Serial,
                                    make_store(a, {i}, make_select(condition, value, 0.f)))));
  };
  const Expr inside = Expr(3) <= i && i < 90, element = make_load(b, {i - Expr(3)});
  EXPECT_THAT(text(inside, element), ::testing::HasSubstr("(3 <= i) & (i < 90) ? b[i - 3] : 0.0f"));
  // What reads memory itself is read only where the rest of the condition holds.
  EXPECT_THAT(text(i < 90 && make_load(b, {i}) < 1.f, element),
              ::testing::HasSubstr("i < 90 && b"));
}

TEST(CudaText, AsynchronousOnlyWhereTheHardwareCopies) {
  const Buffer from = gpu_buffer("from", f16, 4096);
  const Buffer to = gpu_buffer("to", f16, 4096, Scope::Shared);
  const auto text = [&](const Expr& at, const Expr& value) {
    GpuProgram p =
        one_thread({from}, make_allocate(to, make_store(to, {at}, value, StoreHint::Async)));
    p.main[0].shared = {{to, 0}};
    p.main[0].shared_bytes = 8192;
    return emit_cuda(p);
  };
  const Expr run = make_ramp(Expr(8), Expr(1), 8), odd = make_ramp(Expr(7), Expr(1), 8);
  EXPECT_THAT(text(run, make_load(from, {run})),
              ::testing::HasSubstr("cp_async_16(to + 8, from + 8);"));
  EXPECT_THAT(text(run, make_load(from, {odd})), ::testing::Not(::testing::HasSubstr("cp_async")));
  EXPECT_THAT(text(Expr(1), make_load(from, {Expr(1)})), ::testing::HasSubstr("to[1] = from[1];"));
  EXPECT_THAT(text(run, make_load(from, {run}) + make_load(from, {run})),
              ::testing::Not(::testing::HasSubstr("cp_async")));
}

TEST(CudaText, NamesAreIdentifiersOfTheirOwn) {
  const Buffer a = gpu_buffer("float", f32, 16), b = gpu_buffer("a.b", f32, 16);
  const Buffer c = gpu_buffer("a.b", f32, 16);
  const std::string text = emit_cuda(one_thread(
      {a, b, c}, make_store(c, {Expr(0)}, make_load(a, {Expr(0)}) + make_load(b, {Expr(0)}))));
  EXPECT_THAT(text, ::testing::HasSubstr("a_b_1[0] = float_1[0] + a_b[0];"));
}

TEST(CudaText, WhatIsNotInTheThreadFormIsRefused) {
  const Buffer a = gpu_buffer("a", f32, 16), temporary = gpu_buffer("t", f32, 16, Scope::Global);
  const Buffer shared = gpu_buffer("s", f32, 16, Scope::Shared);
  const Buffer matrix = Buffer::make("m", f32, {Expr(4), Expr(4)}, Scope::Argument);
  const Buffer odd = gpu_buffer("odd", DataType{TypeCode::Float, 8, 1}, 16);
  Var i("i");
  const Stmt store = make_store(a, {Expr(0)}, Expr(1.0f));
  const auto refused = [](const GpuProgram& p, const char* why) {
    try {
      emit_cuda(p);
      ADD_FAILURE() << "accepted: " << why;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr(why));
    }
  };
  refused(one_thread({a}, make_allocate(temporary, store)), "is no argument");
  refused(one_thread({a}, make_allocate(shared, store)), "has no place in shared memory");
  refused(one_thread({a}, make_for(i, Expr(4), LoopKind::Parallel, store)), "parallel loop");
  refused(one_thread({a}, thread_loop(LoopKind::ThreadX, i, 2, store)), "and the block 1");
  refused(one_thread({}, store), "neither an argument nor allocated");
  refused(one_thread({a}, make_store(a, {i.expr()}, Expr(1.0f))), "used outside its scope");
  refused(one_thread({matrix}, make_store(matrix, {Expr(0), Expr(0)}, Expr(1.0f))), "at 2 indices");
  refused(one_thread({odd}, store), "no type f8");
  GpuProgram twice = one_thread({a}, store);
  twice.main.push_back(twice.main[0]);
  refused(twice, "have the name 'k'");
  twice.main.pop_back();
  twice.main[0].name = "not a name";
  refused(twice, "no identifier");
}

// One kernel for each type, of all operations that it has.
TEST(CudaText, EveryOperationOfEveryTypeCompiles) {
  GpuProgram p;
  p.name = "all";
  const DataType types[] = {f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean};
  for (DataType t : types) {
    GpuKernel k;
    k.name = "of_" + to_string(t);
    const Buffer x = gpu_buffer("x", t, 64), y = gpu_buffer("y", t, 64);
    k.args = {x, y};
    Var tx("tx");
    std::vector<Stmt> stores;
    const auto add = [&](auto make) {
      try {
        const Expr value = make();
        const Buffer out = gpu_buffer("out", value.dtype(), 64);
        stores.push_back(make_store(out, {tx.expr()}, value));
        k.args.push_back(out);
      } catch (const Error& e) {
        if (e.kind != ErrorKind::User) throw;  // not an operation of this type
      }
    };
    const Expr a = make_load(x, {tx.expr()}), b = make_load(y, {tx.expr()});
    for (int op = 0; op <= static_cast<int>(BinaryOp::Shr); ++op) {
      add([&] { return make_binary(static_cast<BinaryOp>(op), a, b); });
    }
    for (int op = 0; op <= static_cast<int>(UnaryOp::RoundTf32); ++op) {
      add([&] { return make_unary(static_cast<UnaryOp>(op), a); });
    }
    for (DataType to : types) {
      if (!(to == t)) add([&] { return cast(to, a); });
    }
    add([&] { return make_shuffle(a, 1); });
    k.block[0] = 64;
    k.body = thread_loop(LoopKind::ThreadX, tx, 64, make_block(std::move(stores)));
    p.main.push_back(std::move(k));
  }
  setenv("HEDDLE_CUBIN_CACHE", "off", 1);
  const std::string text = emit_cuda(p);
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  // The oldest and one that has all instructions: the helpers do not differ between the others.
  for (const char* arch : {"sm_80", "sm_90a"}) {
    EXPECT_EQ(cuda::compile_cuda(text, arch).kernels.size(), std::size(types)) << arch;
  }
}

}  // namespace
}  // namespace heddle::testing
