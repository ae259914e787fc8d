#include "heddle/target/target.h"

#include <gtest/gtest.h>

#include "heddle/runtime/thread_pool.h"
#include "heddle/schedule/options.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

std::string error_of(const std::string& text) {
  try {
    Target::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::User);
    return error.what();
  }
  return "no error";
}

TEST(Target, HostDescribesThisMachine) {
  const Target& host = Target::host();
  EXPECT_TRUE(host.runs_here()) << to_string(host);
  EXPECT_EQ(host.cores, default_num_threads());
  EXPECT_GE(host.l1d_bytes, 8 << 10);
  EXPECT_GE(host.l2_bytes, host.l1d_bytes);
  EXPECT_GE(host.vector_bytes, 16);
  EXPECT_TRUE(host.triple.empty());
  EXPECT_EQ(Target::parse(to_string(host)), host) << to_string(host);
  EXPECT_EQ(Target::parse("llvm -mcpu=native"), host);
}

TEST(Target, NamedCpusComeFromTheTable) {
  const Target haswell = Target::parse("llvm -mcpu=haswell -threads=2");
  EXPECT_EQ(haswell.vector_bytes, 32);
  EXPECT_EQ(haswell.vector_registers, 16);
  EXPECT_EQ(haswell.fma_units, 2);
  EXPECT_EQ(haswell.cores, 2);
  EXPECT_EQ(haswell.vector_lanes(4), 8);
  EXPECT_TRUE(haswell.has("fma"));
  EXPECT_FALSE(haswell.has("avx512f"));

  const Target server = Target::parse("llvm -mcpu=sapphirerapids");
  EXPECT_EQ(server.vector_bytes, 64);
  EXPECT_EQ(server.vector_registers, 32);
  EXPECT_TRUE(server.has("avx512bf16"));

  EXPECT_EQ(Target::parse("llvm -mcpu=nehalem").vector_bytes, 16);
  EXPECT_EQ(Target::parse("llvm -mcpu=znver4").fma_units, 1);

  const Target arm = Target::parse("llvm -mcpu=neoverse-n1");
  EXPECT_TRUE(arm.is_aarch64());
  EXPECT_EQ(arm.vector_registers, 32);
  EXPECT_NE(arm.runs_here(), Target::host().is_x86());
}

TEST(Target, EveryKnownCpuRoundTrips) {
  for (const std::string& cpu : known_cpus()) {
    const Target plain = Target::parse("llvm -mcpu=" + cpu);
    EXPECT_EQ(Target::parse(to_string(plain)), plain) << cpu;
    const Target changed = Target::parse(
        "llvm -mcpu=" + cpu + " -threads=7 -l1d=48K -l2=3M -l3=0 -fma=3 -vector=32 -registers=20");
    EXPECT_EQ(Target::parse(to_string(changed)), changed) << to_string(changed);
    EXPECT_EQ(changed.l2_bytes, 3 << 20);
    EXPECT_EQ(changed.l3_bytes, 0);
    EXPECT_EQ(changed.cores, 7);
  }
  EXPECT_EQ(to_string(Target::parse("llvm -mcpu=haswell -threads=4")), "llvm -mcpu=haswell");
}

TEST(Target, FeaturesChangeTheVectors) {
  const Target narrow = Target::parse("llvm -mattr=-avx512f -mcpu=skylake-avx512");
  EXPECT_EQ(narrow.vector_bytes, 32);
  EXPECT_EQ(narrow.vector_registers, 16);
  EXPECT_FALSE(narrow.has("avx512f"));
  EXPECT_FALSE(narrow.has("avx512vl")) << "it needs avx512f";
  const Target older = Target::parse("llvm -mattr=-avx2 -mcpu=sapphirerapids");
  for (const char* gone : {"avx512f", "avx512bf16", "avxvnni", "avx512fp16"})
    EXPECT_FALSE(older.has(gone)) << gone;
  EXPECT_TRUE(older.has("avx") && older.has("fma"));
  EXPECT_EQ(Target::parse("llvm -mcpu=x86-64 -mattr=+avx,+avx2").vector_bytes, 32);
  EXPECT_EQ(Target::parse(to_string(narrow)), narrow);
  EXPECT_FALSE(Target::parse("llvm -mcpu=x86-64 -mattr=+no-such-thing").runs_here());
}

TEST(Target, MistakesAreExplained) {
  EXPECT_EQ(error_of("llvm -mcpu=haswel"),
            "error: target 'llvm -mcpu=haswel': unknown CPU 'haswel'\n"
            "  help: did you mean 'haswell'?");
  EXPECT_EQ(error_of("llvm -thread=2"),
            "error: target 'llvm -thread=2': unknown option '-thread'\n"
            "  help: did you mean '-threads'?");
  EXPECT_EQ(error_of("lvm"),
            "error: target 'lvm': unknown kind 'lvm'\n  help: did you mean 'llvm'?");
  EXPECT_EQ(error_of("llvm -threads=0"),
            "error: target 'llvm -threads=0': -threads=0 is not in 1..1024");
  for (const char* text : {"",
                           " ",
                           "opencl",
                           "llvm -gpu=h200",
                           "llvm haswell",
                           "llvm -mcpu",
                           "llvm -mcpu=",
                           "llvm -",
                           "llvm -=x",
                           "llvm -threads=two",
                           "llvm -threads=2x",
                           "llvm -threads=-1",
                           "llvm -threads=1K",
                           "llvm -l2=1T",
                           "llvm -l2=99999999999999999999",
                           "llvm -l2=9999999999999999M",
                           "llvm -vector=24",
                           "llvm -mattr=avx",
                           "llvm -mattr=+",
                           "llvm -mattr=+avx;rm",
                           "llvm -mcpu=;rm -rf",
                           "llvm -mtriple=$(rm)",
                           "llvm -threads=1 -threads=2"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
}

// A target may also be put together by a program.
TEST(Target, NamesThatNoneCanBeAreRefused) {
  const auto message = [](const Target& target) {
    try {
      (void)apply_options(target, {});
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_NE(e.help, "");
      return e.message;
    }
    return std::string("no error");
  };
  Target t;
  t.kind = "llvm -mcpu=;rm -rf";  // what Target("llvm -mcpu=;rm -rf") makes
  EXPECT_EQ(message(t), "there are no targets of kind 'llvm -mcpu=;rm -rf'");
  t = Target::parse("llvm -mcpu=haswell");
  EXPECT_EQ(message(t), "no error");
  for (const std::string cpu : {"", ";rm", "a b", "haswell\n"}) {
    t.mcpu = cpu;
    EXPECT_EQ(message(t), "'" + cpu + "' is no name of a CPU");
  }
  t = Target::parse("llvm -mcpu=haswell");
  t.triple = "x86_64;rm";
  EXPECT_EQ(message(t), "'x86_64;rm' is no triple of a target");
  t.triple.clear();
  t.features = "+avx2,avx";
  EXPECT_NE(message(t), "no error");
}

}  // namespace
}  // namespace heddle
