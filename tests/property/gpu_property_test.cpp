// Random configs of the CUDA templates on random declarations: the emulator finds no error in the
// kernels, and their results are the interpreter's. HEDDLE_PROPERTY_COUNT and HEDDLE_PROPERTY_SEED
// set the number of pairs and the first seed. `heddle selftest --target cuda` runs the same pairs
// on hardware.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>

#include "environment.h"
#include "property/undrawn_rules.h"
#include "selftest/pair.h"

namespace heddle::testing {
namespace {

TEST(GpuProperty, RandomConfigs) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 600);
  const int64_t first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  // Chips that differ in what their templates may use.
  const std::vector<std::string> chips{"h200", "a100"};
  selftest::Coverage coverage;
  std::map<std::string, int> matrix_unit;  // pairs that ran on it, by the type of the first operand
  int failures = 0, warp_groups = 0;
  // After the pairs that were requested, those that are drawn with a rule that none had. The others
  // of these seeds do not run.
  constexpr int64_t kMostDraws = 8;
  const auto enough = [&](int64_t pairs) {
    return pairs >= count &&
           (count < 500 || pairs >= kMostDraws * count || undrawn_rules(coverage).empty());
  };
  for (int64_t i = 0; !enough(i) && failures < 10; ++i) {
    const uint64_t seed = static_cast<uint64_t>(first + i);
    const std::string target = "cuda -gpu=" + chips[seed % chips.size()];
    selftest::PairOptions options;
    options.target = Target::parse(target);
    options.emulate = true;
    if (i >= count) options.config = undrawn_rules(coverage).front();
    const selftest::PairResult r = selftest::run_pair(seed, options, &coverage);
    const size_t at = r.declaration.find(" A:");
    if (r.text.find("cuda_tensor_core") != std::string::npos && at != std::string::npos)
      ++matrix_unit[r.declaration.substr(at + 3, r.declaration.find('[', at) - at - 3)];
    warp_groups += r.text.find("unit\":\"wgmma\"") != std::string::npos ? 1 : 0;
    if (r.problem.empty()) continue;
    ++failures;
    ADD_FAILURE() << r.problem << "\n  " << r.text << "\n  reproduce: heddle selftest --target \""
                  << target << "\" --emulate --count 1 --seed " << seed;
  }
  coverage.print(std::cout);
  if (count >= 500) {
    for (const std::string& rule : undrawn_rules(coverage))
      ADD_FAILURE() << "no pair exercised the rule " << rule;
  }
  std::cout << "  by warp groups: " << warp_groups << " pairs\n";
  if (count >= 500) {
    EXPECT_GE(warp_groups, 1);
  }
  for (const char* type : {"f16", "bf16", "f32", "i8", "u8", "f8e4m3"}) {
    std::cout << "  on matrix units, of " << type << ": " << matrix_unit[type] << " pairs\n";
    if (count >= 500) {
      EXPECT_GE(matrix_unit[type], 5) << type;
    }
  }
}

// A right result passes, and a wrong one does not.
TEST(GpuProperty, JudgesResults) {
  Rng rng(1);
  const selftest::RandomProgram p = selftest::random_program(rng);
  const selftest::Case c(p, 1);
  const std::vector<NDArray> arrays = c.fresh_arrays();
  EXPECT_NE(c.difference(arrays), "");
  selftest::compiled(Target::host())(create_schedule(p.outputs), p.args(), arrays);
  EXPECT_EQ(c.difference(arrays), "");
  const NDArray& out = arrays.back();
  out.set(out.size() - 1, out.get(out.size() - 1) + 1);
  EXPECT_NE(c.difference(arrays), "");
}

}  // namespace
}  // namespace heddle::testing
