// The list of passes that lower_gpu records.
#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/codegen/emulator.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/driver/build.h"
#include "heddle/ir/print.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/ops.h"

namespace heddle {
namespace {

struct Product {
  Tensor a = placeholder({256, 128}, bf16, "A");
  Tensor b = placeholder({128, 256}, bf16, "B");
  Tensor c = ops::matmul(a, b);
  Schedule schedule = create_schedule({c}, Target::parse("cuda -gpu=a100"));

  GpuProgram lowered(bool keep_passes) const {
    return lower_gpu(schedule, {a, b, c}, {.keep_passes = keep_passes});
  }
};

size_t position(const GpuProgram& p, const std::string& pass) {
  const auto at = std::find_if(p.passes.begin(), p.passes.end(),
                               [&](const GpuPassRecord& r) { return r.name == pass; });
  EXPECT_NE(at, p.passes.end()) << pass;
  return static_cast<size_t>(at - p.passes.begin());
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(GpuPasses, AreRecordedInOrderWithTheirTimes) {
  const GpuProgram p = Product().lowered(false);
  EXPECT_EQ(p.passes.front().name, "build_nest");
  size_t last = 0;
  for (const char* name :
       {"linear_scans", "loop_partition", "launch_shape", "distribute", "single_out_stores",
        "flatten", "vectorize", "software_pipeline", "insert_sync", "place_shared"}) {
    const size_t at = position(p, name);
    EXPECT_GT(at, last) << name;
    last = at;
  }
  for (const GpuPassRecord& r : p.passes) {
    EXPECT_GE(r.ms, 0) << r.name;
    EXPECT_TRUE(r.main.empty()) << r.name << " was not to be kept";
  }
}

// A grid has at most 65,535 blocks along y and z.
TEST(GpuPasses, TheLongestSideOfAGridIsAlongX) {
  const Tensor x = placeholder({70000, 3}, f32, "X");
  const Tensor y = compute({70000, 3}, [&](Axis i, Axis j) { return x(i, j) + 1.F; }, "y");
  for (const LoopKind along : {LoopKind::BlockY, LoopKind::BlockZ}) {
    Schedule schedule({y}, Target::parse("cuda -gpu=h200"));
    StageRef s = schedule[y];
    s.bind(s.axis(0), along);
    s.bind(s.axis(1), LoopKind::BlockX);
    const GpuProgram p = lower_gpu(schedule, {x, y});
    const size_t side = along == LoopKind::BlockY ? 1 : 2;
    EXPECT_EQ(p.main.at(0).grid[0], 70000);
    EXPECT_EQ(p.main.at(0).grid[side], 3);
    const NDArray in = NDArray::random({70000, 3}, f32, 1);
    const NDArray out = NDArray::zeros({70000, 3}, f32);
    emulate(p, {in, out});
    EXPECT_TRUE(compare(out, interpret({y}, {{x, in}})[0], 0, 0).ok());
  }
}

// Each kernel waits for those before it once, in all threads, before it accesses their memory.
TEST(GpuPasses, KernelsWaitForTheOnesBeforeThem) {
  const Tensor x = placeholder({8, 4096}, f32, "X");
  const Tensor softmax = ops::softmax(x), far = ops::sum(ops::reshape(softmax, {-1}), {0});
  for (const char* gpu : {"h100", "a100"}) {
    const Target target = Target::parse(std::string("cuda -gpu=") + gpu);
    const bool waits = target.gpu.has_dependent_launch();
    for (const Tensor& y : {softmax, far, Product().c}) {
      std::vector<Tensor> args = ComputeDag({y}).placeholders();
      args.push_back(y);
      const GpuProgram p = lower_gpu(create_schedule({y}, target), args);
      for (const GpuKernel& k : p.main) {
        EXPECT_EQ(k.overlaps, waits);
        const std::string text = to_string(k.body);
        const size_t at = text.find("grid wait");
        EXPECT_EQ(at != std::string::npos, waits) << text;
        if (!waits) continue;
        EXPECT_EQ(text.find("grid wait", at + 1), std::string::npos) << text;
        for (const Buffer& b : k.args) {
          const size_t access = text.find(b->name + "[");
          EXPECT_TRUE(access == std::string::npos || access > at) << text;
        }
      }
    }
  }
}

TEST(GpuPasses, KeepTheProgramWhereAskedTo) {
  const GpuProgram p = Product().lowered(true);
  ASSERT_EQ(p.main.size(), 1u);
  EXPECT_EQ(to_string(p.passes.back()), to_string(p));
  const auto after = [&](const char* pass) { return to_string(p.passes[position(p, pass)]); };
  // Threads take their parts: a fragment's nest becomes an operation of the matrix unit.
  EXPECT_TRUE(has(after("launch_shape"), "tensorized"));
  EXPECT_FALSE(has(after("distribute"), "tensorized"));
  EXPECT_TRUE(has(after("distribute"), "mma"));
  EXPECT_FALSE(has(after("vectorize"), "async"));
  EXPECT_TRUE(has(after("software_pipeline"), "async"));
}

TEST(GpuPasses, OfLowerTheSameNamesForWhatBothDo) {
  const Product x;
  const LoweredProgram cpu = lower(x.schedule, {x.a, x.b, x.c});
  const GpuProgram gpu = x.lowered(false);
  for (const char* name :
       {"build_nest", "simplify", "linear_scans", "loop_partition", "flatten", "vectorize"}) {
    EXPECT_TRUE(std::any_of(cpu.passes.begin(), cpu.passes.end(), [&](const PassRecord& r) {
      return r.name == name;
    })) << name;
    position(gpu, name);
  }
}

}  // namespace
}  // namespace heddle
