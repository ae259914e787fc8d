// Any schedule gives the interpreter's results: random declarations with random configs of the
// templates, and with random hand-made schedules. HEDDLE_PROPERTY_COUNT and HEDDLE_PROPERTY_SEED
// set the number of pairs and the first seed. A failure prints the seed of the pair, which
// reproduces it with count 1.
#include <gtest/gtest.h>

#include <iostream>

#include "environment.h"
#include "heddle/codegen/interpreter.h"
#include "property/undrawn_rules.h"
#include "selftest/pair.h"

namespace heddle::testing {
using namespace selftest;
namespace {

// Runs `schedule` compiled, and now and then through the interpreter after every pass. `growth`: by
// which factor rounding errors may exceed the declaration's.
std::string check(const RandomProgram& p, const Schedule& schedule, uint64_t seed, bool every_pass,
                  const Target& target = Target::host(), double growth = 1) {
  const Case want(p, seed);
  auto agree = [&](const std::vector<NDArray>& args, const std::string& what) {
    const std::string d = want.difference(args, growth);
    return d.empty() ? d : what + ", " + d;
  };
  if (every_pass) {
    LowerOptions options;
    options.keep_passes = true;
    LoweredProgram program = lower(schedule, p.args(), options);
    for (const PassRecord& pass : program.passes) {
      std::vector<NDArray> args = want.fresh_arrays();
      std::vector<NDArray> persistent, constants;
      const auto extents = [](const Buffer& b) {
        std::vector<int64_t> shape;
        for (const Expr& e : b->shape) shape.push_back(*as_int(e));
        return shape;
      };
      // Packed tiles may have holes that nobody reads.
      for (const Buffer& b : program.persistent)
        persistent.push_back(NDArray::zeros(extents(b), b->dtype));
      // An alternative may give arguments other dimensions.
      std::vector<NDArray> all;
      for (size_t i = 0; i < args.size(); ++i)
        all.push_back(args[i].view(extents(pass.main.args[i])));
      if (pass.prepare.body) {
        for (int c : program.constant_args) constants.push_back(all[static_cast<size_t>(c)]);
        constants.insert(constants.end(), persistent.begin(), persistent.end());
        interpret(pass.prepare, constants);
      }
      all.insert(all.end(), persistent.begin(), persistent.end());
      interpret(pass.main, all);
      std::string d = agree(args, "interpreted after " + pass.name);
      if (!d.empty()) return d;
    }
  }
  Kernel kernel = build(schedule.for_target(target), p.args());
  std::vector<NDArray> args = want.fresh_arrays();
  kernel.call(args);
  return agree(args, "compiled");
}

// Whether it adds up products of bytes or bf16: what newer CPUs have instructions for.
bool adds_up_narrow_products(const RandomProgram& p) {
  const ComputeDag dag(p.outputs);
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.info(s).stage_class != StageClass::ComplexReduction) continue;
    for (const Access& a : dag.info(s).reads) {
      const DataType t = a.tensor.dtype();
      if (t == i8 || t == u8 || t == bf16) return true;
    }
  }
  return false;
}

// One pair; "" or what went wrong. Templates choose for `target`; where it does not run here, the
// code is for this machine. `ran`: false where only narrow products are wanted and the seed draws
// none.
std::string run_pair(uint64_t seed, bool manual, Coverage* coverage, Target target,
                     bool* ran = nullptr) {
  Rng rng(seed);
  std::string text;
  try {
    RandomProgram p = random_program(rng);
    if (ran && !(*ran = adds_up_narrow_products(p))) return "";
    text = p.text;
    if (manual) {
      Schedule s(p.outputs);
      p.store_rows(s);
      s = random_schedule(std::move(s), rng);
      text += "\n" + s.to_text();
      std::string d = check(p, s, seed, rng.uniform_int(0, 1) == 0);
      return d.empty() ? "" : d + "\n  " + text;
    }
    target.cores = static_cast<int>(rng.uniform_int(1, 3));
    // So small that what is drawn here does not fit it.
    if (rng.uniform_int(0, 2) == 0) target.l2_bytes = 8 << 10;
    // The graph as it is declared, or rewritten.
    const ComputeDag declared(p.outputs);
    const std::string alternative = p.places ? "" : random_rewrite(declared, target, rng);
    const Template t = make_template(apply_alternative(declared, alternative), target);
    if (!alternative.empty()) coverage->count_alternative(alternative);
    text += "\n  " + alternative;
    Config c = rng.uniform_int(0, 9) == 0 ? t.default_config() : random_config(t, rng);
    text += "\n  " + t.name() + " " + t.config_to_json(c).dump();
    coverage->count(t, c);
    Schedule s = t.instantiate(c);
    p.store_rows(s);
    // Rounding errors grow as the alternative says.
    const double growth = alternative_error_growth(declared, alternative);
    std::string d = check(p, s, seed, rng.uniform_int(0, 7) == 0,
                          target.runs_here() ? target : Target::host(), growth);
    return d.empty() ? "" : d + "\n  " + text;
  } catch (const std::exception& e) {
    return std::string("threw: ") + e.what() + "\n  " + text;
  }
}

// Knobs whose values do not depend on the shape, of which not all values have been drawn.
std::vector<std::string> undrawn(const Coverage& coverage) {
  std::vector<std::string> names;
  for (const auto& [name, of] : coverage.knobs) {
    for (const char* knob : {"reduction", "unroll_k", "pack_operand", "nontemporal", "unroll",
                             "location", "split_reduction", "streams", "prefetch_rows",
                             "prefetch_lines", "rows_a_task", "with_reader", "prefetch_panels",
                             "channels_last", "dot", "widen_vectors", "widen_broadcasts"}) {
      const auto it = of.find(knob);
      if (it != of.end() && it->second.drawn != it->second.offered)
        names.push_back(name + "." + knob);
    }
  }
  return names;
}

void run_many(bool manual, int64_t count, const Target& target = Target::host(),
              bool only_narrow = false) {
  int64_t first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  Coverage coverage;
  int64_t pairs = 0;
  int failures = 0;
  // Rare cases may need more pairs than were requested: at most twice as many.
  const bool covers = !manual && count >= 1000;
  const auto enough = [&] {
    return pairs >= count && (!covers || pairs >= 2 * count ||
                              (undrawn(coverage).empty() && undrawn_rules(coverage).empty()));
  };
  for (int64_t i = 0; !enough() && failures < 10; ++i) {
    uint64_t seed = static_cast<uint64_t>(first + i);
    bool ran = true;
    std::string d = run_pair(seed, manual, &coverage, target, only_narrow ? &ran : nullptr);
    if (!ran) continue;
    ++pairs;
    if (d.empty()) continue;
    ++failures;
    ADD_FAILURE() << d << "\n  " << to_string(target)
                  << "\n  reproduce: HEDDLE_PROPERTY_SEED=" << seed
                  << " HEDDLE_PROPERTY_COUNT=1 property_test "
                  << "--gtest_filter=*"
                  << (manual        ? "Schedules"
                      : only_narrow ? "NewerCpus"
                                    : "Configs");
  }
  std::cout << pairs << " pairs, " << failures << " mismatches\n";
  coverage.print(std::cout);
  if (only_narrow && count >= 100) {
    EXPECT_TRUE(coverage.knobs["complex_reduction"]["dot"].drawn.count(4)) << to_string(target);
    EXPECT_EQ(coverage.knobs.count("tile_product") > 0, target.has("amx-int8"));
  }
  if (covers) {
    for (const std::string& rule : undrawn_rules(coverage))
      ADD_FAILURE() << "no pair exercised the rule " << rule;
    for (const char* t : {"complex_reduction", "direct_compute", "location_tunable",
                          "simple_reduction", "tile_transform"}) {
      EXPECT_TRUE(coverage.knobs.count(t)) << "no pair exercised the meta-template " << t;
    }
    for (const std::string& what : undrawn(coverage)) ADD_FAILURE() << "never drawn: " << what;
  }
}

TEST(Property, RandomConfigs) { run_many(false, number_from_env("HEDDLE_PROPERTY_COUNT", 2000)); }
// The templates as they choose for an older CPU, compiled for it, run here.
TEST(Property, RandomConfigsForOlderCpus) {
  for (const char* text : {"llvm -mcpu=haswell", "llvm -mcpu=nehalem", "llvm -mcpu=x86-64-v2"}) {
    const Target target = Target::parse(text);
    if (!target.runs_here()) continue;
    run_many(false, number_from_env("HEDDLE_PROPERTY_COUNT", 450) / 3 + 1, target);
  }
}
// Sums of narrow products as CPUs with instructions for them choose, expanded to run here.
TEST(Property, RandomNarrowProductsForNewerCpus) {
  for (const char* text : {"llvm -mcpu=cooperlake", "llvm -mcpu=alderlake",
                           "llvm -mcpu=sierraforest", "llvm -mcpu=graniterapids"}) {
    run_many(false, number_from_env("HEDDLE_PROPERTY_COUNT", 400) / 4 + 1, Target::parse(text),
             true);
  }
}
TEST(Property, RandomSchedules) { run_many(true, number_from_env("HEDDLE_PROPERTY_COUNT", 600)); }

}  // namespace
}  // namespace heddle::testing
