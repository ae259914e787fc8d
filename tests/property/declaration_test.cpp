// Serialised declarations of random programs: a schedule that is made here replays on the
// declaration that is read, and on every alternative of it, and lowers to the same program.
#include "dag/declaration/declaration.h"

#include <gtest/gtest.h>

#include <cstring>

#include "heddle/codegen/interpreter.h"
#include "heddle/dag/alternatives.h"
#include "heddle/lower/lower.h"
#include "selftest/pair.h"

namespace heddle::testing {
namespace {

using namespace selftest;

std::string lowered(const Schedule& schedule, const std::vector<Tensor>& args) {
  const LoweredProgram program = lower(schedule, args);
  std::string text = to_string(program.main);
  if (program.prepare.body) text += to_string(program.prepare);
  return text;
}

/// "" when what is read of `dag` is like it, and so is what is made of it.
std::string difference(const ComputeDag& dag, const std::vector<Tensor>& args,
                       const Schedule& schedule) {
  const Json written = declaration_to_json(dag, args);
  const Declaration read = declaration_from_json(Json::parse(written.dump()));
  if (read.dag.structural_hash() != dag.structural_hash()) return "another hash";
  if (read.dag.to_text() != dag.to_text()) return "another graph: " + read.dag.to_text();
  if (declaration_to_json(read.dag, read.args).dump() != written.dump())
    return "it is written in another way: " + written.dump();
  const Schedule replayed = Schedule::from_json(Json::parse(schedule.to_json().dump()), read.dag);
  if (replayed.to_text() != schedule.to_text()) return "another schedule";
  const std::string want = lowered(schedule, args), got = lowered(replayed, read.args);
  return want == got ? "" : "another program:\n" + want + "\nbecame\n" + got;
}

TEST(DeclarationProperty, RandomDeclarationsAndTheirAlternatives) {
  const Target target = Target::parse("llvm -mcpu=icelake-server -threads=2");
  int rewritten = 0, run = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Rng rng(seed);
    const RandomProgram p = random_program(rng);
    const ComputeDag dag(p.outputs);
    const Template t = make_template(dag, target);
    const Schedule schedule = t.instantiate(random_config(t, rng));
    ASSERT_EQ(difference(dag, p.args(), schedule), "") << "seed " << seed << ": " << p.text;
    // Results of the declaration itself; with the programs above equal, those of any schedule.
    if (seed % 6 == 0) {
      const Declaration read = declaration_from_json(declaration_to_json(dag, p.args()));
      const std::vector<NDArray> inputs = random_inputs(p, seed);
      std::vector<TensorValue> ours, theirs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        ours.push_back({p.inputs[i], inputs[i]});
        theirs.push_back({read.args[i], inputs[i]});
      }
      const std::vector<NDArray> want = interpret(p.outputs, ours);
      const std::vector<NDArray> got = interpret(read.dag.outputs(), theirs);
      for (size_t o = 0; o < want.size(); ++o) {
        const auto bytes = static_cast<size_t>(want[o].bytes());
        EXPECT_EQ(std::memcmp(want[o].data(), got[o].data(), bytes), 0) << p.text;
      }
      ++run;
    }
    if (seed % 3 != 0) continue;
    for (const Alternative& a : alternatives_of(dag, target, {})) {
      if (!a.legal()) continue;
      const ComputeDag other = apply_alternative(dag, a.name);
      const Template of = make_template(other, target);
      ASSERT_EQ(difference(other, p.args(), of.instantiate(of.default_config())), "")
          << "seed " << seed << ", " << a.name << ": " << p.text;
      ++rewritten;
    }
  }
  EXPECT_GT(rewritten, 10);
  EXPECT_GT(run, 10);
}

}  // namespace
}  // namespace heddle::testing
