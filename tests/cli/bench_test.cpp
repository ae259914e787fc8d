// bench: tables, JSON and files, on subjects that take no time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "peers/idle.h"
#include "peers/peer_onednn.h"
#include "run_command.h"
#include "source_dir.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kQuick = " --time 0.01";

TEST(Bench, PrintsATable) {
  const CommandResult r = heddle_command("bench matmul:16x16x16 --peers none --threads 1" + kQuick);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, IsEmpty());  // no terminal, no progress
  for (const char* text : {"matmul:16x16x16  f32, 1 thread", "GFLOP/s", "of peak", "\nnaive ",
                           "\nstatic ", "static agrees with naive"}) {
    EXPECT_THAT(r.out, HasSubstr(text));
  }
}

// On a fake GPU, whose kernels compute nothing: that is found.
TEST(Bench, ChecksKernelsOfAGpu) {
  const std::string bench = "bench matmul:16x16x16 --target cuda";
  const CommandResult peers = heddle_command(bench + " --peers openblas");
  EXPECT_EQ(peers.status, 2);
  EXPECT_THAT(peers.err, HasSubstr("openblas does not compute on GPUs"));
  const CommandResult other = heddle_command("bench matmul:8x8x8 --peers cublaslt");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("cublaslt does not compute on CPUs"));
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const CommandResult r =
      heddle_command(bench + kQuick + " --peers none --json -",
                     "HEDDLE_LIBCUDA=" HEDDLE_TEST_FAKE_LIBCUDA " HEDDLE_FAKE_KERNELS=any");
  EXPECT_EQ(r.status, 1) << r.err;
  EXPECT_THAT(r.err, HasSubstr("differs from the CPU"));
  EXPECT_THAT(Json::parse(r.out).at("results").at(0).at("difference").as_string(), Not(IsEmpty()));
}

// The fake library has an algorithm that refuses, one that is wrong, and one that is right.
TEST(Bench, SearchesTheAlgorithmsOfCublasLt) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const char* flags : {"", ",ta=1", ",tb=1"}) {
    const CommandResult r = heddle_command(
        std::string("bench matmul:6x10x4") + flags + " --target cuda --peers cublaslt" + kQuick,
        "HEDDLE_LIBCUDA=" HEDDLE_TEST_FAKE_LIBCUDA
        " HEDDLE_FAKE_KERNELS=any LD_LIBRARY_PATH=" HEDDLE_TEST_FAKE_CUBLASLT);
    if (r.out.find("built without its headers") != std::string::npos) GTEST_SKIP() << r.out;
    EXPECT_THAT(r.out, HasSubstr("13.2.4, the fastest of 3 algorithms")) << flags << r.out << r.err;
  }
}

TEST(Bench, ComparesARangeWithEachSize) {
  const CommandResult r =
      heddle_command("bench matmul:1..9x8x8 --threads 1 --sizes 2,9 --json -" + kQuick);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("raced, 2 sizes: geometric mean"));
  EXPECT_THAT(r.err, HasSubstr("by rule, 2 sizes: geometric mean"));
  const Json rows = Json::parse(r.out).at("ranges").at(0).at("rows");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows.at(1).at("sizes").at(0).as_int(), 9);
  EXPECT_GT(rows.at(1).at("alone_seconds").as_double(), 0);
  const Json forms = rows.at(1).at("forms");
  ASSERT_EQ(forms.size(), 2u);
  EXPECT_GT(forms.at(0).at("seconds").as_double(), 0);
  EXPECT_EQ(forms.at(1).at("difference").as_string(), "");
  const CommandResult both = heddle_command("bench matmul:1..9x8x8 matmul:8x8x8");
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("two runs"));
}

TEST(Bench, ComparesAModelOverARangeWithEachSize) {
  const CommandResult r = heddle_command(
      "bench " + source_dir() + "/tutorials/data/digits.onnx:batch=1..4 --threads 1" + kQuick);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("range, 4 sizes: geometric mean"));
}

TEST(Bench, WritesJsonToStandardOutput) {
  const CommandResult r =
      heddle_command("bench --threads 1,2 matmul:16x24x8 row_sum:8x32 --json -" + kQuick);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("of peak"));
  const Json j = Json::parse(r.out);
  ASSERT_EQ(j.members().size(), 2u);
  const Json& machine = j.at("machine");
  EXPECT_FALSE(machine.at("cpu").as_string().empty());
  EXPECT_EQ(machine.at("fma_peak_f32").size(), 2u);
  EXPECT_GT(machine.at("fma_peak_f32").at(0).at("gflops").as_double(), 0);
  EXPECT_GE(machine.at("bandwidth").size(), 2u);
  ASSERT_EQ(j.at("results").size(), 4u);
  for (const Json& result : j.at("results").elements()) {
    // What memory gave in the same rounds, where it is memory that bounds.
    const bool memory = result.at("subject").as_string().starts_with("row_sum");
    EXPECT_EQ(result.members().size(), memory ? 7u : 6u);
    EXPECT_EQ(result.get_double("memory_gb_per_s", 0) > 0, memory);
    EXPECT_EQ(result.at("dtype").as_string(), "f32");
    const Json& times = result.at("times_ms");
    EXPECT_GT(times.at("naive").as_double(), 0);
    EXPECT_GT(times.at("static").as_double(), 0);
    for (const auto& [name, ms] : times.members()) EXPECT_GT(ms.as_double(), 0) << name;
  }
  const Json& matmul = j.at("results").at(1);
  EXPECT_EQ(matmul.at("subject").as_string(), "matmul:16x24x8");
  EXPECT_EQ(matmul.at("threads").as_int(), 2);
  EXPECT_EQ(matmul.at("flops").as_int(), 2 * 16 * 24 * 8);
  EXPECT_EQ(matmul.at("bytes").as_int(), 4 * (16 * 8 + 8 * 24 + 16 * 24));
}

TEST(Bench, WhatWasNotRunIsAbsent) {
  const CommandResult r = heddle_command(
      "bench matmul:16x16x16 --peers none --no-naive --threads 1 --dtype f32,f64 --json -" +
      kQuick);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("static agrees with the interpreter"));
  const Json j = Json::parse(r.out);
  ASSERT_EQ(j.at("results").size(), 2u);
  EXPECT_EQ(j.at("results").at(1).at("dtype").as_string(), "f64");
  for (const Json& result : j.at("results").elements()) {
    ASSERT_EQ(result.at("times_ms").members().size(), 1u);
    EXPECT_EQ(result.at("times_ms").members()[0].first, "static");
  }
}

// "rules" is the static choice with the default constants and without trees.
TEST(Bench, RulesAreTimedWhereTheyChooseOtherwise) {
  const std::string folder = temporary("learned_constants");
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/llvm-" + Target::host().chip() + ".constants";
  std::ofstream(file)
      << R"({"heddle_constants": 1, "kind": "llvm", "constants": {"row_accumulators": 1}})";
  const std::string bench =
      "bench softmax:64x512 add_relu:8x8 --peers none --threads 1 --json -" + kQuick;
  const CommandResult r = heddle_command(bench, "HEDDLE_LEARNED=" + folder);
  ASSERT_EQ(r.status, 0) << r.err;
  const Json results = Json::parse(r.out).at("results");
  EXPECT_GT(results.at(0).at("times_ms").at("rules").as_double(), 0);
  EXPECT_FALSE(results.at(1).at("times_ms").contains("rules")) << "it is the same schedule";
  const CommandResult off = heddle_command(bench, "HEDDLE_LEARNED=off");
  ASSERT_EQ(off.status, 0) << off.err;
  EXPECT_FALSE(Json::parse(off.out).at("results").at(0).at("times_ms").contains("rules"));
}

TEST(Bench, WritesAFileWhole) {
  const std::string file = temporary("bench.json");
  const CommandResult r =
      heddle_command("bench softmax:8x32 --peers none --threads 1 --json " + file + kQuick);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("GB/s"));
  EXPECT_EQ(Json::parse(read_file(file)).at("results").size(), 1u);
  ::unlink(file.c_str());
}

TEST(Bench, BadInputLeavesNoFile) {
  const std::string file = temporary("never.json");
  const CommandResult r = heddle_command("bench softmax:8 --json " + file + kQuick);
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(::access(file.c_str(), F_OK), 0);
}

// Every kind of peer, ours against theirs, with the layouts converted.
TEST(Bench, AgreesWithThePeers) {
  const CommandResult r = heddle_command(
      "bench conv2d:c=4,h=9,k=8,pad=1,layout=nhwc conv_bn_relu:c=4,h=6,k=8,pad=1 "
      "conv2d:c=3,h=14,k=8,r=7,stride=2,pad=3 conv2d:c=8,h=12,k=8,pad=2,dilation=2 "
      "conv2d:c=16,h=7,k=32,pad=1,groups=4 depthwise_conv2d:c=8,h=6,pad=1,layout=nhwc "
      "conv1d:c=4,w=16,k=8,pad=1,layout=nhwc dense:8x16x8 batch_matmul:2x8x8x8 matmul:33x47x29 "
      "matmul:33x47x29,ta=1 matmul:33x47x29,tb=1 matmul:1x65x40 matmul:50x1x31 tbg:2x8x4 "
      "row_sum:13x37 column_sum:13x37 full_sum:13x37 softmax:13x37 log_softmax:13x37 "
      "layer_norm:13x37 bias_gelu:13x37 bias_gelu:13x37,form=tanh concat:13x37 "
      "concat:13x37,axis=0 transpose:13x37 add_relu:8x24 max_pool2d:c=8,h=9,pad=1,layout=nhwc "
      "max_pool2d:c=8,h=9,pad=1 avg_pool2d:c=8,h=9,pad=1 global_avg_pool:c=8,h=7 "
      "resize_bilinear:c=4,h=5 attention:2x8x4 --no-naive --threads 1 --time 0.001");
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_THAT(r.out, Not(HasSubstr("MISMATCH")));
  EXPECT_THAT(r.out, Not(HasSubstr("FAILED")));
  EXPECT_THAT(r.out, Not(HasSubstr("not verified")));
  // Every one of them has a peer.
  if (peers::onednn_available()) {
    EXPECT_THAT(r.out, Not(HasSubstr("the interpreter")));
  }
}

TEST(Bench, WaitsUntilOtherThreadsSleep) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
    }
  });
  EXPECT_FALSE(peers::wait_until_idle(5e-3));
  stop = true;
  busy.join();
  EXPECT_TRUE(peers::wait_until_idle(1.0)) << peers::other_running_threads();
}

}  // namespace
}  // namespace heddle
