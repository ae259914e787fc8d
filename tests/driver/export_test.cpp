// Kernels ahead of time: written, linked, loaded; and refused where the CPU lacks what they need.
#include "heddle/driver/export.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "driver/driver_testing.h"
#include "driver/program_args.h"
#include "emulated_kernels.h"
#include "heddle/runtime/load_kernel.h"
#include "heddle/support/json.h"
#include "runtime/cuda/cuda_program.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

class Export : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("heddle_export_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string stem(const char* name) const { return (folder_ / name).string(); }

  static void link(const std::string& stem) {
    const std::string command =
        std::string(HEDDLE_TEST_CXX) + " -shared -o '" + stem + ".so' '" + stem + ".o' -lm";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  std::filesystem::path folder_;
};

std::string message_of(const std::string& stem) {
  try {
    load_kernel(stem);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::Runtime) << error.message;
    return error.message + "; " + error.help;
  }
  return "no error";
}

TEST_F(Export, AKernelRunsAsTheOneThatWasBuilt) {
  for (const char* cpu : {"", "llvm -mcpu=x86-64-v2"}) {
    const Target target = *cpu != '\0' ? Target::parse(cpu) : Target::host();
    if (!target.runs_here()) continue;
    const Schedule s = create_schedule({conv_block()}, target);  // packs its weights
    export_kernel(s, all_args(s.dag()), stem("block"), {.name = "block"});
    link(stem("block"));
    const Kernel kernel = load_kernel(stem("block"));
    EXPECT_EQ(kernel.name(), "block");
    EXPECT_TRUE(kernel.has_persistent());
    for (int call = 0; call < 2; ++call) {
      const std::vector<NDArray> arrays = call_arrays(s.dag());
      kernel.call(arrays);
      EXPECT_EQ(differs(s.dag(), arrays, 1e-4), "") << cpu;
    }
    EXPECT_THROW(kernel(NDArray::zeros({1}, f32)), Error);
  }
}

TEST_F(Export, WhatThisCpuLacksIsAnErrorAndNoIllegalInstruction) {
  // Of the three, one at least is not this machine.
  int refused = 0;
  for (const char* text : {"llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu",
                           "llvm -mcpu=sapphirerapids -mtriple=x86_64-linux-gnu",
                           "llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu"}) {
    const Target target = Target::parse(text);
    const Schedule s = create_schedule({conv_block()}, target);
    export_kernel(s, all_args(s.dag()), stem("other"));
    if (target.runs_here()) continue;
    ++refused;
    // No library is needed to say so: the check comes before anything is loaded.
    const std::string message = message_of(stem("other"));
    EXPECT_NE(message.find("this CPU lacks"), std::string::npos) << message;
    EXPECT_NE(message.find(target.mcpu), std::string::npos) << message;
    if (target.has("avx512f") && !Target::host().has("avx512f")) {
      EXPECT_NE(message.find("avx512f"), std::string::npos) << message;
    }
  }
  EXPECT_GE(refused, 1);
}

TEST_F(Export, AKernelForAGpuRunsAsTheOneThatWasBuilt) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Schedule s = create_schedule({conv_block()}, Target::parse("cuda -gpu=h200"));
  const std::vector<Tensor> args = all_args(s.dag());
  export_kernel(s, args, stem("block"), {.name = "block:3x3"});
  EXPECT_FALSE(std::filesystem::exists(stem("block") + ".o"));
  cuda::FakeDriver driver;
  emulate_kernels(driver, driver::lower_for_gpu(s, args, {.name = "block_3x3"}));
  const cuda::ScopedDriver scope(&driver.api());
  const Kernel kernel = load_kernel(stem("block"));
  EXPECT_EQ(kernel.name(), "block:3x3");
  for (int call = 0; call < 2; ++call) {
    const std::vector<NDArray> arrays = call_arrays(s.dag());
    kernel.call(arrays);  // copies to the fake GPU and back
    EXPECT_EQ(differs(s.dag(), arrays, 1e-4), "");
  }
  EXPECT_GE(driver.launches.size(), 2U);
  std::filesystem::remove(stem("block") + ".cubin");
  EXPECT_NE(message_of(stem("block")).find("block.cubin"), std::string::npos);
}

TEST_F(Export, AKernelForAGpuKeepsRowsThatNoPlaceNames) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Tensor x = placeholder({4, 6}, f32, "x"), places = placeholder({4}, i64, "places");
  const Tensor y =
      compute({4, 6}, [&](Axis i, Axis j) { return select(places(i) >= 0, x(i, j), 0.f); }, "y");
  const std::vector<Tensor> args{x, places, y};
  Schedule s = create_schedule({y}, Target::parse("cuda -gpu=h200"));
  s[y].scatter_rows(s[places], 9);
  export_kernel(s, args, stem("rows"), {.name = "rows"});
  cuda::FakeDriver driver;
  emulate_kernels(driver, driver::lower_for_gpu(s, args, {.name = "rows"}));
  const cuda::ScopedDriver scope(&driver.api());
  const NDArray rows = NDArray::full({9, 6}, f32, 77);
  load_kernel(stem("rows"))(NDArray::full({4, 6}, f32, 5),
                            NDArray::from<int64_t>({1, 8, 3, 0}, {4}), rows);
  for (int64_t r = 0; r < 9; ++r)
    EXPECT_EQ(rows.get(6 * r), r == 1 || r == 8 || r == 3 || r == 0 ? 5 : 77) << r;
}

// A kernel over a dimension: the library and its description are for all sizes.
TEST_F(Export, AKernelRunsAtEverySize) {
  const Dim n = dim("n", 1, 40);
  const Tensor x = placeholder({n, 24}, f32, "x");
  const Tensor w = constant(NDArray::random({24, 24}, f32, 3), "w");
  const Axis k = reduce_axis(24, "k");
  const Tensor y = compute({n, 24}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); }, "y");
  export_kernel(create_schedule({y}), {x, y}, stem("any"));
  link(stem("any"));
  const Kernel kernel = load_kernel(stem("any"));
  ASSERT_EQ(kernel.sizes().size(), 1U);
  for (const int64_t size : {1, 7, 16, 40}) {
    const NDArray in = NDArray::random({size, 24}, f32, 5),
                  out = NDArray::full({size, 24}, f32, 77);
    kernel(in, out);
    const Instance here = at_sizes({y}, {{n, size}});
    const NDArray want = interpret(here.outputs, {{here.of(x), in}})[0];
    EXPECT_TRUE(allclose(out, want, 1e-4, 1e-5)) << size;
  }
  EXPECT_THROW(kernel(NDArray::zeros({41, 24}, f32), NDArray::zeros({41, 24}, f32)), Error);
  const MultiKernel one = load_multi_kernel(stem("any"));
  EXPECT_EQ(one.variants(), std::vector<std::string>{"kernel"});
}

TEST_F(Export, LaunchesForAGpuDependOnTheSizes) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Dim n = dim("n", 1, 4000);
  const Tensor x = placeholder({n}, f32, "x");
  const Tensor y = compute({n}, [&](Axis i) { return x(i) * 2.0f; }, "y");
  const Schedule s = create_schedule({y}, Target::parse("cuda -gpu=h200"));
  export_kernel(s, {x, y}, stem("any"), {.name = "any"});
  cuda::FakeDriver driver;
  emulate_kernels(driver, driver::lower_for_gpu(s, {x, y}, {.name = "any"}));
  const cuda::ScopedDriver scope(&driver.api());
  const Kernel kernel = load_kernel(stem("any"));
  for (const int64_t size : {1, 1000, 4000}) {
    const NDArray in = NDArray::random({size}, f32, 5), out = NDArray::full({size}, f32, 77);
    kernel(in, out);
    for (const int64_t i : {int64_t{0}, size / 2, size - 1}) EXPECT_EQ(out.get(i), 2 * in.get(i));
  }
}

TEST_F(Export, VariantsWithTheirPick) {
  const Tensor block = conv_block();
  const ComputeDag dag({block});
  const std::vector<MultiVariant> variants = {
      {"static", create_schedule({block})},
      {"again", create_schedule({block})},
      {"direct",
       create_schedule({block}, Target::host(), {.vector_bytes = 16, .use_alternatives = false})},
      {"naive", naive_schedule({block})}};
  const PickRow pick = export_multi(variants, all_args(dag), stem("multi"), {.name = "block"}, 10);
  EXPECT_EQ(pick.reason, PickReason::Measured);
  EXPECT_EQ(pick.variants.size(), 3U) << "two are one";
  link(stem("multi"));
  const std::vector<NDArray> arrays = call_arrays(dag);
  const Kernel one = load_kernel(stem("multi"));
  one.call(arrays);
  EXPECT_EQ(differs(dag, arrays, 1e-4), "");
  const MultiKernel all = load_multi_kernel(stem("multi"));
  all.call(arrays);
  EXPECT_EQ(all.picks()[0].picked, pick.picked);
  EXPECT_EQ(all.picks()[0].reason, PickReason::Chosen) << "nothing is timed";
  for (const std::string& name : all.variants()) {
    all.force(name);
    arrays.back().fill(77);
    all.call(arrays);
    EXPECT_EQ(differs(dag, arrays, 1e-4), "") << name;
  }
  PickOptions asked = exported_pick_options();
  asked.measure = true;
  const MultiKernel timed = load_multi_kernel(stem("multi"), asked);
  timed.call(arrays);
  EXPECT_EQ(timed.picks()[0].reason, PickReason::Measured);
}

// On a fake GPU, whose kernels do nothing in the race. Each variant then has its own emulated ones.
TEST_F(Export, VariantsForAGpuWithTheirPick) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  cuda::FakeDriver driver;
  driver.any_kernel = true;
  const cuda::ScopedDriver scope(&driver.api());
  const Target gpu = Target::cuda();
  const Tensor block = conv_block();
  const std::vector<MultiVariant> variants = {{"static", create_schedule({block}, gpu)},
                                              {"again", create_schedule({block}, gpu)},
                                              {"naive", naive_schedule({block}, gpu)}};
  const ComputeDag dag({block});
  const std::vector<Tensor> args = all_args(dag);
  const PickRow pick = export_multi(variants, args, stem("multi"), {.name = "block"}, 5);
  EXPECT_EQ(pick.reason, PickReason::Measured);
  EXPECT_EQ(pick.variants.size(), 2U) << "two are one";
  EXPECT_FALSE(std::filesystem::exists(stem("multi") + ".o"));
  const MultiKernel all = load_multi_kernel(stem("multi"));
  ASSERT_EQ(all.variants(), (std::vector<std::string>{"static", "naive"}));
  EXPECT_NE(all.kernel("static").cuda_program()->cubin, all.kernel("naive").cuda_program()->cubin);
  EXPECT_EQ(load_kernel(stem("multi")).cuda_program()->cubin,
            all.kernel(pick.picked).cuda_program()->cubin);
  for (const size_t v : {0, 2}) {
    emulate_kernels(driver, driver::lower_for_gpu(*variants[v].schedule, args, {.name = "block"}));
    all.force(variants[v].name);
    const std::vector<NDArray> arrays = call_arrays(dag);
    all.call(arrays);
    EXPECT_EQ(differs(dag, arrays, 1e-4), "") << variants[v].name;
  }
}

TEST_F(Export, VariantsThatCannotRaceHereAreRefused) {
  const Tensor block = conv_block();
  const auto refused = [&](const Target& target) {
    const Schedule s = create_schedule({block}, target);
    EXPECT_THROW(export_multi({s, naive_schedule({block}, target)}, all_args(s.dag()), stem("no")),
                 Error);
    EXPECT_FALSE(std::filesystem::exists(stem("no") + ".o"));
  };
  refused(Target::parse("llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu"));
  refused(Target::parse("cuda -gpu=h200"));
  const Dim n = dim("n", 1, 40);
  const Tensor x = placeholder({n}, f32, "x");
  const Tensor y = compute({n}, [&](Axis i) { return x(i) * 2.0f; }, "y");
  EXPECT_THROW(export_multi({create_schedule({y})}, {x, y}, stem("no")), Error);
}

TEST_F(Export, MistakesAreSaid) {
  const Schedule s = create_schedule({conv_block()});
  export_kernel(s, all_args(s.dag()), stem("unlinked"));
  EXPECT_NE(message_of(stem("unlinked")).find("c++ -shared"), std::string::npos);
  EXPECT_NE(message_of(stem("missing")), "no error");
  const Target gpu = Target::parse("cuda -gpu=h200");
  EXPECT_THROW(export_kernel(s, all_args(s.dag()), stem("gpu"), {.target = gpu}), Error);
  EXPECT_FALSE(std::filesystem::exists(stem("gpu") + ".o"));
}

}  // namespace
}  // namespace heddle::testing
