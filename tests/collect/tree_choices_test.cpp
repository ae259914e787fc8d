// A tree in place of a rule: it determines the schedule, reports this, and leaves the decision to
// the rule where it is unsure.
#include "heddle/heuristics/tree_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "environment.h"
#include "heddle/driver/build.h"
#include "heddle/heuristics/collect.h"
#include "heddle/heuristics/constants.h"
#include "heddle/heuristics/train_tree.h"
#include "heddle/ops/linalg.h"
#include "heddle/records/tophub.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "heuristics/asked_problems.h"
#include "heuristics/trees/tree_file.h"
#include "schedule/templates/graph_choice.h"
#include "search/ranked_seeds.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

const Target& target() {
  static const Target t = Target::parse("llvm -mcpu=znver3 -threads=2");
  return t;
}

Tensor product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return ops::matmul(placeholder({m, k}, f32, "A"), placeholder({k, n}, f32, "B"));
}

std::vector<Tensor> products_of_64_to_512() {
  std::vector<Tensor> out;
  for (std::int64_t size = 64; size <= 512; size += 16) out.push_back(product(size, size, size));
  return out;
}

/// A tree that says `choice` for every problem, because it was twice as fast.
TrainedTree tree_that_says(const Heuristic& h, const ParameterSet& choice,
                           const std::vector<Tensor>& problems) {
  HeuristicData data;
  data.heuristic = h.name;
  data.version = std::to_string(h.version);
  data.features = h.all_features();
  data.target = to_string(target());
  data.choices = {h.id_of(choice), h.id_of(h.fallback)};
  for (const Tensor& problem : problems) {
    const BuildOutcome built = build_choices(h, {problem}, target());
    HeuristicProblem p;
    p.id = std::to_string(data.problems.size());
    p.features = h.values_of(built.built.at(0).features);
    p.seconds = {1, 2};
    p.fallback = 1;
    data.problems.push_back(p);
  }
  return train_tree(data);
}

/// A folder of tophub of the test's own.
class TreeChoices : public ::testing::Test {
 protected:
  TreeChoices() {
    std::filesystem::create_directories(folder_);
    ::setenv("HEDDLE_TOPHUB", ("off:" + folder_).c_str(), 1);
  }
  ~TreeChoices() override {
    std::filesystem::remove_all(folder_);
    ::setenv("HEDDLE_TOPHUB", "off", 1);
    reload_tophub();
  }
  void install(const ParameterSet& choice) {
    install(heuristic_of("contraction"), choice, products_of_64_to_512());
  }
  void install(const Heuristic& h, const ParameterSet& choice,
               const std::vector<Tensor>& problems) {
    learning::write_tree(folder_ + "/llvm-znver3." + h.name + ".tree",
                         tree_that_says(h, choice, problems));
    reload_tophub();
  }
  static Template made(std::int64_t m, const AutoSchedulerOptions& options = {}) {
    return make_static_template(ComputeDag({product(m, 256, 256)}), target(), options);
  }
  static const Knob& knob(const Template& t, const std::string& name) {
    return t.knobs().at(static_cast<std::size_t>(t.knob_index(name)));
  }
  std::string folder_ = ::testing::TempDir() + "tree_choices_" + std::to_string(::getpid());
};

ParameterSet tile(std::int64_t rows, std::int64_t vectors) {
  return ParameterSet().set("tile_rows", rows).set("tile_cols", 8 * vectors);
}

TEST_F(TreeChoices, AnInstalledTreeChangesTheStaticChoiceAndSaysSo) {
  const std::string by_rule = made(256).to_text();
  ASSERT_NE(knob(made(256), "tile_rows").default_value, 3);
  install(tile(3, 3));
  const Template t = made(256);
  EXPECT_EQ(knob(t, "tile_rows").default_value, 3);
  EXPECT_EQ(knob(t, "tile_cols").default_value, 24);
  EXPECT_EQ(knob(t, "tile_rows").source, "tree llvm-znver3.contraction");
  EXPECT_EQ(knob(t, "reduction").source, "rule");
  EXPECT_THAT(t.to_text(), HasSubstr("contraction: tree llvm-znver3.contraction, region 0 of 1"));
  const Schedule s = create_schedule({product(256, 256, 256)}, target(), {.use_records = false});
  EXPECT_THAT(s.to_text(), HasSubstr(".split(i, 3)"));
  EXPECT_EQ(s.provenance, "tree llvm-znver3.contraction, analytic rule of complex_reduction");
  // Without heuristics the rule decides.
  AutoSchedulerOptions rules;
  rules.use_heuristics = false;
  EXPECT_EQ(made(256, rules).to_text(), by_rule);
}

TEST_F(TreeChoices, ARuleFillsInWhatGoesWithTheTreesTile) {
  install(tile(3, 3));
  const Template t = made(256);
  // All rows are a block: so many of the tree's tiles, twice as many as of the rule's own.
  EXPECT_EQ(knob(t, "row_block_tiles").default_value, (256 + 2) / 3);
  EXPECT_EQ(knob(t, "row_block_tiles").source, "rule");
  EXPECT_EQ(t.why_invalid(t.default_config()), "");
}

TEST_F(TreeChoices, OutsideOfWhatItSawATreeIsUnsure) {
  const std::string by_rule = knob(made(4096), "tile_rows").reason;
  install(tile(3, 3));
  const Template t = made(4096);
  EXPECT_EQ(knob(t, "tile_rows").source, "rule");
  EXPECT_EQ(knob(t, "tile_rows").reason, by_rule);
  EXPECT_THAT(t.to_text(), HasSubstr("unsure"));
  EXPECT_THAT(t.to_text(), HasSubstr("the rule decides"));
}

TEST_F(TreeChoices, AnIllegalAnswerLeavesTheRule) {
  const std::int64_t by_rule = knob(made(256), "tile_rows").default_value;
  install(tile(8, 4));  // 32 accumulators, of 16 registers
  const Template t = made(256);
  EXPECT_EQ(knob(t, "tile_rows").default_value, by_rule);
  EXPECT_EQ(knob(t, "tile_rows").source, "rule");
  EXPECT_THAT(t.to_text(), HasSubstr("the register tile must fit the vector registers"));
}

TEST_F(TreeChoices, ATreeOfNarrowerVectorsDoesNotAnswer) {
  install(tile(3, 3));
  const Template t = made(256, {.vector_bytes = 16});
  EXPECT_EQ(knob(t, "tile_rows").source, "rule");
  EXPECT_THAT(t.to_text(), HasSubstr("is for vectors of 32 bytes: the rule decides"));
}

TEST_F(TreeChoices, AChipWithoutATreeAsksThatOfAnyChip) {
  const Heuristic& h = heuristic_of("contraction");
  TrainedTree tree = tree_that_says(h, tile(3, 3), products_of_64_to_512());
  tree.machine = "znver2, skylake";
  tree.training["machines_left_out"] = Json::parse(
      R"([{"machine": "znver2", "tree_over_rule": 0.81}, {"machine": "skylake", "tree_over_rule": 1.0}])");
  learning::write_tree(folder_ + "/llvm-any.contraction.tree", tree);
  reload_tophub();
  EXPECT_EQ(knob(made(256), "tile_rows").default_value, 3);
  EXPECT_EQ(knob(made(256), "tile_rows").source,
            "tree llvm-any.contraction (0.900 of the rule's time on machines left out)");
  EXPECT_EQ(knob(made(4096), "tile_rows").source, "rule") << "it knows what it saw";
  install(tile(2, 4));
  EXPECT_EQ(knob(made(256), "tile_rows").default_value, 2) << "that of the chip is asked first";
}

TEST_F(TreeChoices, ATreeOfAnotherMachineSaysSo) {
  const Heuristic& h = heuristic_of("contraction");
  TrainedTree tree = tree_that_says(h, tile(3, 3), products_of_64_to_512());
  const std::string other = "llvm -mcpu=znver2 -threads=2", own = to_string(target());
  for (const auto& [targets, source] :
       {std::pair{other, "tree llvm-znver3.contraction (measured on znver2)"},
        {other + ", " + own, "tree llvm-znver3.contraction"}}) {
    tree.target = targets;
    learning::write_tree(folder_ + "/llvm-znver3.contraction.tree", tree);
    reload_tophub();
    EXPECT_EQ(knob(made(256), "tile_rows").source, source);
  }
}

TEST_F(TreeChoices, ATreeOfAnotherVersionIsNotUsed) {
  TrainedTree tree =
      tree_that_says(heuristic_of("contraction"), tile(3, 3), products_of_64_to_512());
  tree.version = "0";
  learning::write_tree(folder_ + "/llvm-znver3.contraction.tree", tree);
  reload_tophub();
  EXPECT_EQ(find_tree(heuristic_of("contraction"), target()), nullptr);
  EXPECT_EQ(knob(made(256), "tile_rows").source, "rule");
}

// In one process the variable may change; templates are cached.
TEST_F(TreeChoices, AVariableTurnsSingleHeuristicsOff) {
  install(tile(3, 3));
  const auto tile_rows_with = [](const char* value) {
    const testing::Variable variable{"HEDDLE_HEURISTICS", value};
    return knob(made(256), "tile_rows").source;
  };
  const std::string tree = "tree llvm-znver3.contraction";
  EXPECT_EQ(tile_rows_with("-contraction"), "rule");
  EXPECT_EQ(tile_rows_with("-reduction"), tree);
  EXPECT_EQ(tile_rows_with("-reduction,-contraction"), "rule");
  EXPECT_EQ(tile_rows_with("reduction,location"), "rule");
  EXPECT_EQ(tile_rows_with("reduction,contraction"), tree);
  EXPECT_EQ(tile_rows_with("off"), "rule");
  EXPECT_EQ(tile_rows_with(""), tree);
  EXPECT_EQ(tile_rows_with("reduction, contraction,"), tree);
  for (const char* wrong : {"-contracton", "-", "contraction,-", "contraction;reduction"}) {
    const testing::Variable variable{"HEDDLE_HEURISTICS", wrong};
    try {
      (void)made(256);
      ADD_FAILURE() << wrong << " was passed over";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_THAT(e.message, HasSubstr("names no heuristic by '")) << wrong;
    }
  }
  const testing::Variable variable{"HEDDLE_COLLECT", "contracton"};
  try {
    (void)made(256);
    ADD_FAILURE() << "a misspelt name was passed over";
  } catch (const Error& e) {
    EXPECT_THAT(e.help, ::testing::Not(HasSubstr("off"))) << "nothing is logged without it";
  }
}

// ---- constants of rules ------------------------------------------------------------------------

class MeasuredConstants : public TreeChoices {
 protected:
  void install_constants(const std::string& values) {
    write_file_atomic(folder_ + "/llvm-znver3.constants",
                      R"({"heddle_constants": 1, "kind": "llvm", "constants": )" + values + "}");
    reload_tophub();
  }
  static Template long_sum(const AutoSchedulerOptions& options = {}) {
    return make_static_template(ComputeDag({product(8, 8, 60000)}), target(), options);
  }
};

TEST_F(MeasuredConstants, RulesJudgeByThoseOfTheFile) {
  ASSERT_EQ(knob(long_sum(), "reduction").text_of(knob(long_sum(), "reduction").default_value),
            "split_k");
  install_constants(
      R"({"deep_reduction": 65536, "split_gain": 4, "vectors_a_task": 2, "tasks_a_core": 0.25})");
  const Template t = long_sum();
  EXPECT_EQ(knob(t, "reduction").text_of(knob(t, "reduction").default_value), "whole");
  EXPECT_THAT(t.to_text(), HasSubstr("constants llvm-znver3: "));
  EXPECT_THAT(t.to_text(), HasSubstr("deep_reduction 65536 (2048 by default)"));
  AutoSchedulerOptions rules;
  rules.use_heuristics = false;
  EXPECT_EQ(knob(long_sum(rules), "reduction").default_value, 2);
  const testing::Variable variable{"HEDDLE_HEURISTICS", "off"};
  EXPECT_EQ(knob(long_sum(), "reduction").default_value, 2);
}

TEST_F(MeasuredConstants, AChipWithoutAFileHasThatOfAnyChip) {
  write_file_atomic(
      folder_ + "/llvm-any.constants",
      R"({"heddle_constants": 1, "kind": "llvm", "constants": {"deep_reduction": 65536}})");
  reload_tophub();
  EXPECT_EQ(measured_constants(target())->cpu.deep_reduction, 65536);
  EXPECT_EQ(measured_constants(target())->source, "constants llvm-any");
  install_constants(R"({"deep_reduction": 32768})");
  EXPECT_EQ(measured_constants(target())->cpu.deep_reduction, 32768);
}

TEST_F(MeasuredConstants, AFileThatCannotBeUsedLeavesTheDefaults) {
  for (const char* wrong : {R"({"deep_reductoin": 65536})", R"({"deep_reduction": 1})", "7"}) {
    install_constants(wrong);
    EXPECT_EQ(measured_constants(target()), nullptr) << wrong;
    EXPECT_EQ(knob(long_sum(), "reduction").default_value, 2) << wrong;
  }
}

TEST_F(MeasuredConstants, ThoseThatDecideAreNamed) {
  const auto names = [](std::int64_t depth) {
    std::vector<std::string> out;
    for (const DecidingConstant& c :
         deciding_constants(ComputeDag({product(8, 8, depth)}), target(), {}))
      out.emplace_back(c.info->name);
    return out;
  };
  EXPECT_THAT(names(5000), ::testing::Contains("deep_reduction"));
  EXPECT_THAT(names(64), ::testing::Not(::testing::Contains("deep_reduction")));
  for (const DecidingConstant& c :
       deciding_constants(ComputeDag({product(8, 8, 5000)}), target(), {})) {
    if (c.info->name != "deep_reduction") continue;
    EXPECT_FALSE(c.below) << "it is cut already";
    EXPECT_TRUE(c.above);
  }
}

// ---- problems of other programs ----------------------------------------------------------------

TEST_F(TreeChoices, AVariableLogsTheProblemsOfAHeuristic) {
  const testing::Variable learned{"HEDDLE_LEARNED", folder_};
  const testing::Variable collect{"HEDDLE_COLLECT", "contraction"};
  (void)made(100);
  (void)made(200);
  clear_template_cache();
  (void)made(100);
  const std::string path = folder_ + "/" + learning::asked_file_name(target());
  const std::vector<DrawnProblem> problems = learning::read_asked(path, "contraction");
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(ComputeDag(problems[0].outputs).structural_hash(),
            ComputeDag({product(100, 256, 256)}).structural_hash());
  EXPECT_TRUE(learning::read_asked(path, "alternative").empty());
  EXPECT_TRUE(
      build_choices(heuristic_of("contraction"), problems[1].outputs, target()).why_not.empty());
}

TEST_F(TreeChoices, ProblemsAreNotLoggedWithoutAFolder) {
  const testing::Variable learned{"HEDDLE_LEARNED", "off"};
  const testing::Variable collect{"HEDDLE_COLLECT", "contraction"};
  EXPECT_THROW((void)made(101), Error);
}

TEST_F(TreeChoices, ACompiledInTableAnswersWhereNoFileDoes) {
  const TreeHolder table(
      tree_that_says(heuristic_of("contraction"), tile(3, 3), products_of_64_to_512()));
  register_tree_table("llvm", "znver3", table.table());
  EXPECT_EQ(knob(made(256), "tile_rows").source, "rule") << "what is shipped is turned off";
  ::setenv("HEDDLE_TOPHUB", folder_.c_str(), 1);
  EXPECT_EQ(knob(made(256), "tile_rows").default_value, 3);
  install(tile(2, 4));
  EXPECT_EQ(knob(made(256), "tile_rows").default_value, 2) << "the file is asked first";
  unregister_tree_table(table.table());
}

// ---- where a search begins ---------------------------------------------------------------------

TEST_F(TreeChoices, ASearchBeginsWithWhatTheTreesRankBest) {
  const Template before =
      make_template_of_alternatives(ComputeDag({product(256, 256, 256)}), target());
  EXPECT_EQ(search::ranked_seeds(before).size(), 0u) << "no tree was consulted";
  install(tile(3, 3));
  const Template t = make_template_of_alternatives(ComputeDag({product(256, 256, 256)}), target());
  const std::vector<Config> seeds = search::ranked_seeds(t);
  ASSERT_EQ(seeds.size(), 1u);
  EXPECT_EQ(t.branch_of(seeds[0]), t.branch_of(t.default_config()));
  const Template own = t.branch(t.branch_of(seeds[0]));
  const Config config = t.config_in_branch(seeds[0]);
  EXPECT_EQ(config.values.at(static_cast<std::size_t>(own.knob_index("tile_rows"))), 3);
  EXPECT_EQ(t.why_invalid(seeds[0]), "");
  AutoSchedulerOptions rules;
  rules.use_heuristics = false;
  EXPECT_TRUE(
      search::ranked_seeds(make_template(ComputeDag({product(256, 256, 256)}), target(), rules))
          .empty());
}

TEST_F(TreeChoices, AnUnsureLeafStillRanks) {
  // Half of the problems gain a little, the others lose much, and no feature tells them apart.
  const Heuristic& h = heuristic_of("contraction");
  HeuristicData data;
  data.heuristic = h.name;
  data.version = std::to_string(h.version);
  data.features = h.all_features();
  data.choices = {h.id_of(tile(3, 3)), h.id_of(h.fallback)};
  const BuildOutcome built = build_choices(h, {product(256, 256, 256)}, target());
  for (int i = 0; i < 40; ++i)
    data.problems.push_back({.id = std::to_string(i),
                             .features = h.values_of(built.built.at(0).features),
                             .seconds = {i % 2 == 0 ? 0.9 : 2.0, 1},
                             .fallback = 1});
  const LearnedChoice tree(h, train_tree(data), "tree");
  const BuiltChoices& problem = built.built.at(0);
  const Situation situation{FeatureView(problem.features), problem.of_rule};
  EXPECT_FALSE(tree.answer(situation).choice);
  const std::vector<std::optional<ParameterSet>> ranked = tree.ranked(situation);
  ASSERT_EQ(ranked.size(), 2u);
  EXPECT_FALSE(ranked[0]);
  EXPECT_EQ(ranked[1], tile(3, 3));
}

// ---- which graph -------------------------------------------------------------------------------

class GraphChoices : public TreeChoices {
 protected:
  void install_form(const std::string& id) {
    std::vector<Tensor> sums;
    for (std::int64_t k = 4096; k <= 65536; k += 2048) sums.push_back(product(32, k, 32));
    const Heuristic& h = heuristic_of("alternative");
    install(h, h.choice_of(id), sums);
  }
  static ComputeDag long_sum() { return ComputeDag({product(32, 16384, 32)}); }
  static Tensor product(std::int64_t m, std::int64_t k, std::int64_t n) {
    return ops::matmul(placeholder({m, k}, f32, "A"), placeholder({k, n}, f32, "B"));
  }
  static Template chosen(const AutoSchedulerOptions& options = {}) {
    return make_static_template(long_sum(), target(), options);
  }
};

TEST_F(GraphChoices, ATreeChoosesTheGraph) {
  const std::string by_rule = chosen().dag().alternative();
  install_form(R"({"form":"split_k","parts_a_core":4})");
  EXPECT_EQ(chosen().dag().alternative(), "split_k(parts=8)@2");
  EXPECT_NE(by_rule, "split_k(parts=8)@2") << "the test sees no difference";
  EXPECT_THAT(chosen().to_text(), HasSubstr("alternative by tree llvm-znver3.alternative: "));
  const GraphChoice why = choose_graph(long_sum(), target(), {});
  EXPECT_EQ(why.source, "tree llvm-znver3.alternative");
  // A search tries the graphs that the tree ranks early, and no others.
  const Template offered = make_template_of_alternatives(long_sum(), target());
  ASSERT_GT(offered.num_branches(), 2);
  EXPECT_EQ(search::early_branches(offered),
            (std::vector<int>{0, offered.find_branch("split_k(parts=8)@2")}));
  // The tuner's static choice is the same.
  const Template all = make_template_of_alternatives(long_sum(), target());
  EXPECT_EQ(all.static_schedule().dag().alternative(), "split_k(parts=8)@2");
  EXPECT_EQ(all.static_schedule().to_text(), chosen().static_schedule().to_text());
  const Schedule s = create_schedule(long_sum().outputs(), target(), {.use_records = false});
  EXPECT_THAT(s.provenance, HasSubstr("split_k(parts=8)@2"));
  EXPECT_THAT(s.provenance, HasSubstr("; alternative by tree llvm-znver3.alternative"));
  // What the options turn off stays off.
  AutoSchedulerOptions rules, direct;
  rules.use_heuristics = false;
  direct.use_alternatives = false;
  EXPECT_EQ(chosen(rules).dag().alternative(), by_rule);
  EXPECT_EQ(chosen(direct).dag().alternative(), "");
}

TEST_F(GraphChoices, ATreeChoosesHowTheTemplateCutsTheSum) {
  for (const auto& [form, label] :
       {std::pair{"direct:whole", "whole"}, std::pair{"direct:split_k", "split_k"}}) {
    install_form(std::string(R"({"form":")") + form + R"("})");
    const Template t = chosen();
    EXPECT_EQ(t.dag().alternative(), "");
    const Knob& reduction = knob(t, "reduction");
    EXPECT_EQ(reduction.text_of(reduction.default_value), label);
    EXPECT_EQ(reduction.source, "tree llvm-znver3.alternative");
    const Template all = make_template_of_alternatives(long_sum(), target());
    EXPECT_EQ(all.static_schedule().to_text(), t.static_schedule().to_text());
  }
}

TEST_F(GraphChoices, OutsideOfWhatItSawTheEstimatesDecide) {
  install_form(R"({"form":"direct:whole"})");
  const ComputeDag other({product(256, 3000, 256)});
  const GraphChoice c = choose_graph(other, target(), {});
  EXPECT_EQ(c.source, "rule");
  EXPECT_THAT(c.why, HasSubstr("unsure"));
  EXPECT_EQ(c.alternative, choose_alternative(other, target(), {}));
}

}  // namespace
}  // namespace heddle
