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

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// NEON code is not run here: an object is made, and its text has the products and sums of four
// lanes as one instruction, and no arithmetic on single floats.
TEST(Targets, NeonProductsAreVectorMultiplyAdds) {
  const Target arm = Target::parse("llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu -threads=2");
  const Tensor product = ops::matmul(placeholder({128, 96}), placeholder({96, 256}));
  const Tensor image = placeholder({1, 14, 14, 32});
  ops::Conv conv;
  conv.padding = {1};
  conv.layout = ops::NHWC;
  const Tensor convolved = ops::conv2d(image, constant_placeholder({3, 3, 32, 64}), conv);
  for (const Tensor& t : {product, convolved}) {
    const Schedule s = create_schedule({t}, arm);
    const LoweredProgram p = lower(s, all_args(s.dag()));
    std::vector<LoweredFunction> functions{p.main};
    if (p.prepare.body) functions.push_back(p.prepare);
    const std::string text = emit_llvm(functions, arm, "s");
    EXPECT_GE(count(text, ".4s, v"), 16) << t.name();
    EXPECT_GE(count(text, "fmla\tv"), 16) << t.name();
    EXPECT_EQ(count(text, "fmadd\ts"), 0) << t.name();
    EXPECT_EQ(count(text, "fmul\ts"), 0) << t.name();
    const std::string object = emit_llvm(functions, arm, "o");
    constexpr unsigned char kAarch64 = 183;  // EM_AARCH64, in the header's e_machine
    ASSERT_GT(object.size(), 64U);
    EXPECT_EQ(object.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_EQ(static_cast<unsigned char>(object[18]), kAarch64);
  }
}

TEST(Targets, OlderMachinesOfThisArchitectureRun) {
  for (const char* text : {"llvm -mcpu=x86-64", "llvm -mcpu=nehalem", "llvm -mcpu=haswell",
                           "llvm -mcpu=haswell -threads=3"}) {
    Target target = Target::parse(text);
    if (!target.runs_here()) continue;
    for (const Tensor& t : programs()) {
      EXPECT_EQ(wrong_when_run(create_schedule({t}, target)), "") << text << " " << t.name();
      // A schedule for one machine, code for another.
      EXPECT_EQ(wrong_when_run(create_schedule({t}).for_target(target)), "")
          << text << " " << t.name();
    }
  }
}

TEST(Targets, AScheduleForWiderVectorsThanTheMachineHasRuns) {
  Target wide = Target::parse("llvm -mcpu=skylake-avx512 -threads=2");
  for (const Tensor& t : programs()) {
    EXPECT_EQ(wrong_when_run(create_schedule({t}, wide).for_target(Target::host())), "")
        << t.name();
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
