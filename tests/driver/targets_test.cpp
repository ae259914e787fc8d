// Other machines: code is emitted for all, and run for the older ones of this architecture.
#include "driver/driver_testing.h"

namespace heddle::testing {
namespace {

std::vector<Tensor> programs() {
  Tensor a = placeholder({33, 40}), b = placeholder({40, 50});
  return {ops::matmul(a, b), conv_block(), ops::softmax(placeholder({20, 100})),
          ops::argmax(placeholder({20, 100}), 1)};
}

std::string assembly(const Tensor& t, const Target& target) {
  Template tpl = make_template(ComputeDag({t}), target);
  Schedule s = tpl.instantiate(tpl.default_config());
  LoweredProgram p = lower(s, all_args(s.dag()));
  std::vector<LoweredFunction> functions{p.main};
  if (p.prepare.body) functions.push_back(p.prepare);
  EXPECT_EQ(wrong_after(s), "") << t.name() << " for " << to_string(target);
  return emit_llvm(functions, target, "s");
}

TEST(Targets, EveryMachineGetsItsOwnVectors) {
  struct Case {
    const char* target;
    const char* vector_register;
  };
  for (const Case& c : {Case{"llvm -mcpu=nehalem -mtriple=x86_64-linux-gnu", "xmm"},
                        Case{"llvm -mcpu=x86-64 -mtriple=x86_64-linux-gnu", "xmm"},
                        Case{"llvm -mcpu=haswell -mtriple=x86_64-linux-gnu", "ymm"},
                        Case{"llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu", "zmm"},
                        Case{"llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu", ".4s"}}) {
    Target target = Target::parse(c.target);
    for (const Tensor& t : programs()) {
      std::string text = assembly(t, target);
      EXPECT_GT(text.size(), 500u) << c.target << " " << t.name();
      if (t.name().find("argmax") == std::string::npos) {
        EXPECT_NE(text.find(c.vector_register), std::string::npos) << c.target << " " << t.name();
      }
    }
  }
}

TEST(Targets, OlderMachinesOfThisArchitectureRun) {
  for (const char* text : {"llvm -mcpu=x86-64", "llvm -mcpu=nehalem", "llvm -mcpu=haswell",
                           "llvm -mcpu=haswell -threads=3"}) {
    Target target = Target::parse(text);
    if (!target.runs_here()) continue;
    BuildOptions options;
    options.target = target;
    for (const Tensor& t : programs()) {
      EXPECT_EQ(wrong_when_run(create_schedule({t}, target), options), "")
          << text << " " << t.name();
      // A schedule for one machine, code for another.
      EXPECT_EQ(wrong_when_run(create_schedule({t}), options), "") << text << " " << t.name();
    }
  }
}

TEST(Targets, AScheduleForWiderVectorsThanTheMachineHasRuns) {
  Target wide = Target::parse("llvm -mcpu=skylake-avx512 -threads=2");
  for (const Tensor& t : programs()) {
    EXPECT_EQ(wrong_when_run(create_schedule({t}, wide)), "") << t.name();
  }
}

TEST(Targets, KnobsFollowTheMachine) {
  Tensor t = ops::matmul(placeholder({256, 256}), placeholder({256, 256}));
  auto config = [&](const char* target) {
    Template tpl = make_template(ComputeDag({t}), Target::parse(target));
    return tpl.config_to_json(tpl.default_config()).dump();
  };
  EXPECT_NE(config("llvm -mcpu=nehalem -threads=1"),
            config("llvm -mcpu=skylake-avx512 -threads=1"));
}

}  // namespace
}  // namespace heddle::testing
