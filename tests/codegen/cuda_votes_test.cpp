// Loops whose iterations the lanes of a warp vote on: their text runs as host C++, the lanes of a warp at
// the same time, and is compared with the interpreter.
#include <array>
#include <functional>

#include "codegen/cuda_host_library.h"
#include "codegen/cuda_kernels.h"
#include "heddle/codegen/interpreter.h"
#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

/// Kernels without those instructions by which launches overlap.
Target a100() { return Target::parse("cuda -gpu=a100"); }

bool votes(const GpuProgram& p) { return emit_cuda(p).find("__ballot_sync") != std::string::npos; }

/// The sums (or, of integers, what `kind` says) of the sources that name each of `rows` points, a place for
/// each source or for each of its columns. Places are also outside of the points.
Tensor scattered(int64_t rows, int64_t columns, int64_t sources, DataType t, bool by_column = false,
                 ReduceKind kind = ReduceKind::Max) {
  const Tensor x = placeholder({sources, columns}, t, "x"),
               at = placeholder({sources, by_column ? columns : 1}, i64, "at");
  const Axis q = reduce_axis(sources, "q");
  return compute(
      {rows, columns},
      [&](Axis i, Axis c) {
        const Expr place = by_column ? at(q, c) : at(q, Expr(0));
        const auto where = [&](const Expr& otherwise) {
          return select(Expr(i) == floormod(place * 7, Expr(rows + 3)) - 1, x(q, c), otherwise);
        };
        if (t == f32 || kind == ReduceKind::Sum) return sum(where(make_const(t, 0)), q);
        return kind == ReduceKind::Max ? max(where(lowest_value(t)), q)
                                       : min(where(highest_value(t)), q);
      },
      "S");
}

/// Runs the text of the kernels of `results`, which has `part`, and compares with the declarations.
void expect_right(const std::vector<Tensor>& results, const std::string& part) {
  std::vector<Schedule> schedules;
  std::vector<size_t> kernels;
  GpuProgram all;
  all.name = "all";
  for (const Tensor& r : results) {
    schedules.push_back(create_schedule({r}, a100()));
    const GpuProgram p = lower_gpu(schedules.back(), all_args(schedules.back().dag()));
    EXPECT_NE(emit_cuda(p).find(part), std::string::npos) << emit_cuda(p);
    kernels.push_back(p.main.size());
    for (const GpuKernel& k : p.main) {
      all.main.push_back(k);
      all.main.back().name = "k" + std::to_string(all.main.size());
    }
  }
  const HostLibrary library(all);
  ASSERT_TRUE(library.ready());
  size_t next = 0;
  for (size_t i = 0; i < schedules.size(); ++i) {
    std::vector<NDArray> arrays = call_arrays(schedules[i].dag());
    const std::vector<Tensor> args = all_args(schedules[i].dag());
    for (size_t k = 0; k < kernels[i]; ++k, ++next) {
      std::vector<NDArray> own;
      for (const Buffer& b : all.main[next].args) {
        const auto it = std::find_if(args.begin(), args.end(),
                                     [&](const Tensor& t) { return t.name() == b->name; });
        ASSERT_NE(it, args.end()) << b->name;
        own.push_back(arrays[static_cast<size_t>(it - args.begin())]);
      }
      library.run_warps(all.main[next], own);
    }
    EXPECT_EQ(differs(schedules[i].dag(), arrays, 0), "")
        << emit_cuda(one_kernel(all.main[next - 1]));
  }
}

// Of columns for whole warps, for parts of one, and for lanes of which some are not there.
TEST(CudaVotes, FindTheSourcesOfScattersInTheirOrder) {
  std::vector<Tensor> results;
  for (const DataType t : {f32, i64}) {
    for (const auto& [rows, columns, sources] : std::vector<std::array<int64_t, 3>>{{300, 64, 200},
                                                                                    {40, 130, 333},
                                                                                    {64, 40, 33},
                                                                                    {300, 5, 150},
                                                                                    {700, 1, 200},
                                                                                    {90, 9, 500}})
      results.push_back(scattered(rows, columns, sources, t));
  }
  expect_right(results, "__ballot_sync");
}

// Each column has places of its own: its thread tests several of them before it stores what they name. Integers
// are combined by the threads of all blocks.
TEST(CudaVotes, ColumnsTestTheirOwnPlacesAheadAndIntegersMeetInMemory) {
  std::vector<Tensor> own, met;
  for (const auto& [rows, columns, sources] : std::vector<std::array<int64_t, 3>>{
           {300, 64, 200}, {40, 130, 333}, {64, 40, 64}, {90, 9, 500}}) {
    own.push_back(scattered(rows, columns, sources, f32, true));
    for (const ReduceKind kind : {ReduceKind::Max, ReduceKind::Min, ReduceKind::Sum}) {
      met.push_back(scattered(rows, columns, sources, i64, true, kind));
      met.push_back(scattered(rows, columns, sources, i32, true, kind));
    }
  }
  expect_right(own, "__ffs(");
  expect_right(met, "atomic");
}

/// for t in 0..64 (threadIdx.x) { for q in 0..n { if (condition) out[t] += 1 } }
bool votes_on(const std::function<Expr(const Expr& t, const Expr& q, const Buffer& p)>& condition,
              int64_t n = 100) {
  GpuKernel k;
  k.name = "k";
  const Buffer p = gpu_buffer("p", i64, 200), out = gpu_buffer("out", i64, 64);
  k.args = {p, out};
  k.block[0] = 64;
  const Var t("t"), q("q");
  const Stmt add = make_store(out, {t.expr()}, make_load(out, {t.expr()}) + Expr(1));
  k.body =
      thread_loop(LoopKind::ThreadX, t, 64,
                  make_for(q, Expr(n), LoopKind::Serial, make_if(condition(t, q, p), add, {})));
  return votes(one_kernel(k));
}

TEST(CudaVotes, OnlyOnWhatTheLanesOfAWarpShare) {
  const auto place = [](const Buffer& p, const Expr& q) { return make_load(p, {q}); };
  EXPECT_TRUE(votes_on([&](auto&, auto& q, auto& p) { return place(p, q) == 3; }));
  EXPECT_TRUE(votes_on([&](auto& t, auto& q, auto& p) {
    return t * Expr(4) <= place(p, q) && place(p, q) < t * Expr(4) + 4;
  })) << "bounds that are linear in the lane";
  EXPECT_FALSE(votes_on([&](auto&, auto& q, auto&) { return q == 3; })) << "names no data";
  EXPECT_FALSE(votes_on([&](auto& t, auto& q, auto& p) { return place(p, q + t) == 3; }))
      << "of another element in each lane";
  EXPECT_FALSE(votes_on([&](auto& t, auto& q, auto& p) {
    return place(p, q) == floormod(t, Expr(5)) || place(p, q) == t;
  })) << "no bounds over lanes are known";
  EXPECT_FALSE(votes_on([&](auto&, auto& q, auto& p) { return place(p, q) == 3; }, 8))
      << "fewer iterations than lanes";
}

}  // namespace
}  // namespace heddle::testing
