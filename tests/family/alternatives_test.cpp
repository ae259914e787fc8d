// Rewritten graphs (dag/alternatives.h) of families.
#include "heddle/dag/alternatives.h"

#include <optional>

#include "family/blocks.h"
#include "family/family_testing.h"
#include "heddle/family/choose.h"

namespace heddle::testing {
namespace {

TEST(FamilyAlternatives, RewrittenGraphsAreRightAtEverySize) {
  const Family f = conv_family(dim("n", 1, 12), 16, 32, 8);
  const ComputeDag one(at_sizes({f.result}, {{f.n, 12}}).outputs);
  int made = 0;
  for (const Alternative& a : alternatives_of(one, Target::host(), {})) {
    if (!a.legal() || a.name.find('+') != std::string::npos) continue;
    std::optional<ComputeDag> dag;
    try {
      dag = apply_alternative(ComputeDag({f.result}), a.name);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User) << a.name << ": " << e.message;
      EXPECT_EQ(a.name.find("winograd"), std::string::npos) << e.message;
      continue;
    }
    EXPECT_EQ(dag->alternative(), a.name);
    const Kernel kernel = build(Schedule(*dag), all_args(ComputeDag({f.result})));
    for (const int64_t n : {1, 5, 12}) {
      const ComputeDag at(at_sizes({f.result}, {{f.n, n}}).outputs);
      const std::vector<NDArray> arrays = call_arrays(at);
      kernel.call(arrays);
      EXPECT_EQ(differs(at, arrays, 1e-3), "") << a.name << " of " << n;
    }
    ++made;
  }
  EXPECT_GE(made, 1);
}

// Blocks of other numbers of tiles would lie in parts of rows, and need whole images each.
TEST(FamilyAlternatives, BlocksOfSeveralCoresEndWithRowsOfTiles) {
  const Family f = conv_family(dim("n", 1, 9), 64, 64, 28);
  Target target = Target::host();
  for (const int cores : {2, 5}) {
    target.cores = cores;
    const Schedule one = create_schedule(at_sizes({f.result}, {{f.n, 1}}).outputs, target);
    const Schedule s = family::shared_at_all_sizes(one, {f.result});
    EXPECT_EQ(s.dag().alternative(), one.dag().alternative());
    ASSERT_EQ(s.steps().size(), one.steps().size());
    for (size_t i = 0; i < s.steps().size() && !s.dag().alternative().empty(); ++i) {
      if (s.steps()[i].kind != StepKind::Split) continue;
      const int64_t was = one.steps()[i].params[0].value, is = s.steps()[i].params[0].value;
      EXPECT_TRUE(is >= was || was % is == 0) << cores << " cores: " << was << " to " << is;
    }
    const Kernel kernel = build(s, all_args(ComputeDag({f.result})));
    for (const int64_t n : {1, 2}) {
      const ComputeDag at(at_sizes({f.result}, {{f.n, n}}).outputs);
      const std::vector<NDArray> arrays = call_arrays(at);
      kernel.call(arrays);
      EXPECT_EQ(differs(at, arrays, 1e-3), "") << n << " images, " << cores << " cores";
    }
  }
}

TEST(FamilyAlternatives, AreRacedWhereTheRulesChooseThem) {
  const Family f = conv_family(dim("n", 1, 3), 64, 64, 14);
  const std::vector<Tensor> args = all_args(ComputeDag({f.result}));
  FamilyOptions o{.points = 2, .race_seconds = 0.05};
  std::vector<std::string> said;
  o.progress = [&](const std::string& line) { said.push_back(line); };
  const FamilyResult chosen = choose_family({f.n}, args, o);
  const std::string rule =
      create_schedule(at_sizes({f.result}, {{f.n, 3}}).outputs).dag().alternative();
  // At 1 or at 3: equal schedules are raced once.
  std::string all;
  for (const std::string& line : said) all += line + "\n";
  const bool raced = all.find("chosen at n=1 " + rule) != std::string::npos ||
                     all.find("chosen at n=3 " + rule) != std::string::npos;
  EXPECT_TRUE(rule.empty() || raced) << rule << "\n" << all;
  for (const FamilyVariant& v : chosen.variants) {
    chosen.kernel.force(v.name);
    const ComputeDag at(at_sizes({f.result}, {{f.n, 3}}).outputs);
    const std::vector<NDArray> arrays = call_arrays(at);
    chosen.kernel.call(arrays);
    EXPECT_EQ(differs(at, arrays, 1e-3), "") << v.name;
  }
}

}  // namespace
}  // namespace heddle::testing
