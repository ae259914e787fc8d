// Choices: those of a rule, and the answers of a source in its place.
#include "heddle/schedule/choice.h"

#include <map>

#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

/// A problem of one number, as a meta-template would describe it.
struct Row {
  int64_t length = 1;
  NamedFeatures features() const { return {{"length", static_cast<double>(length)}}; }
};

Choice row_rule(const Row& row) {
  return Choice().set("tile", std::min<int64_t>(row.length, 4), "short").set("unroll", 2, "pairs");
}

/// Says what it was made with, for rows of 12, to the heuristic "row".
class FakeSource : public ChoiceSource {
 public:
  explicit FakeSource(std::map<std::string, int64_t> says, std::string version = "fake 1")
      : says_(std::move(says)), version_(std::move(version)) {}
  std::string version() const override { return version_; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    const NamedFeature& length = question.features.at(0);
    if (question.heuristic != "row" || length.name != "length" || length.value != 12) return {};
    Choice answer("tree row");
    for (const auto& [knob, value] : says_) answer.set(knob, value, "it was faster");
    return {answer};
  }

 private:
  std::map<std::string, int64_t> says_;
  std::string version_;
};

/// A meta-template with the two knobs of `row_rule`, of which the product is at most 8.
class ChoiceTest : public ::testing::Test {
 protected:
  ChoiceTest() {
    register_meta_template(
        {"rows_of_the_test", 5,
         [](const ComputeDag&, const StageGroup&, const Target&) { return true; },
         [](TemplateBuilder& t, const StageGroup& g) {
           StageRef s = t.stage(g.output_stage);
           const Choice choice =
               t.decide("row", Row{t.dag().stage(g.output_stage).axes().back().extent()}, row_rule);
           const Param tile = t.knob("tile", {1, 2, 4, 8}, choice);
           const Param unroll = t.knob("unroll", {1, 2, 4}, choice);
           t.require("tile * unroll must be at most 8",
                     [=](const TemplateBuilder::Value& v) { return v(tile) * v(unroll) <= 8; });
           s.split(s.axis(-1), tile);
         }});
  }
  ~ChoiceTest() override {
    install_choice_source(nullptr);
    unregister_meta_template("rows_of_the_test");
  }

  static Template made(const AutoSchedulerOptions& options = {}) {
    return make_template(ComputeDag({Pair().C}), Target::host(), options);
  }
  static Template made_with(std::map<std::string, int64_t> says) {
    install_choice_source(std::make_shared<FakeSource>(std::move(says)));
    return made();
  }
};

TEST(Choice, TheLastCallForAKnobCounts) {
  Choice c;
  c.set("a", 1, "first").set("b", 2).set("a", 3, "second");
  EXPECT_EQ(c.knobs(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.value("a"), 3);
  EXPECT_EQ(c.reason("a"), "second");
  EXPECT_EQ(c.source("a"), "rule");
  EXPECT_FALSE(c.has("c"));
  EXPECT_EQ(error_of([&] { c.value("c"); }).substr(0, 44),
            "INTERNAL the rule chose nothing for knob 'c'");
}

TEST(Choice, AnAnswerSpeaksForTheKnobsThatBothName) {
  Choice rule, answer("tree x");
  rule.set("a", 1, "because").set("b", 2, "why not");
  answer.set("b", 5, "measured").set("z", 9);
  EXPECT_EQ(rule.overlay(answer), (std::vector<std::string>{"z"}));
  EXPECT_EQ(rule.value("a"), 1);
  EXPECT_EQ(rule.value("b"), 5);
  EXPECT_EQ(rule.source("a"), "rule");
  EXPECT_EQ(rule.source("b"), "tree x");
  EXPECT_FALSE(rule.has("z"));
  EXPECT_EQ(rule.before_overlay().value("b"), 2);
  EXPECT_EQ(rule.before_overlay().source("b"), "rule");
}

TEST_F(ChoiceTest, WithoutASourceTheRuleSpeaks) {
  const Template t = made();
  EXPECT_EQ(t.default_config().values, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(t.knobs()[0].reason, "short");
  EXPECT_EQ(t.knobs()[0].source, "rule");
}

TEST_F(ChoiceTest, ASourceAnswersForOneKnobAndTheRuleForTheOther) {
  const Template t = made_with({{"tile", 2}});
  EXPECT_EQ(t.default_config().values, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(t.knobs()[0].reason, "tree row: it was faster");
  EXPECT_EQ(t.knobs()[0].source, "tree row");
  EXPECT_EQ(t.knobs()[1].source, "rule");
  EXPECT_NE(t.to_text().find("tree row: it was faster"), std::string::npos);
}

TEST_F(ChoiceTest, WhereASourceIsUnsureTheRuleSpeaks) {
  install_choice_source(std::make_shared<FakeSource>(std::map<std::string, int64_t>{{"tile", 2}}));
  const Tensor a = placeholder({8, 3}, f32, "a");
  const Tensor b = compute({8, 3}, [&](Axis i, Axis j) { return a(i, j) + 1.f; }, "b");
  const Template t = make_template(ComputeDag({b}), Target::host(), {});
  EXPECT_EQ(t.default_config().values, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(t.knobs()[0].source, "rule");
}

TEST_F(ChoiceTest, AValueThatIsNotOfferedLeavesTheRules) {
  const Template t = made_with({{"tile", 5}});
  EXPECT_EQ(t.default_config().values, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(t.knobs()[0].values, (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(t.knobs()[0].source, "rule");
  EXPECT_NE(t.to_text().find("tree row says 5 for 'tile', which is not offered"),
            std::string::npos);
}

TEST_F(ChoiceTest, AnAnswerThatBreaksARequirementLeavesTheRules) {
  const Template t = made_with({{"tile", 8}});
  EXPECT_EQ(t.default_config().values, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(t.knobs()[0].source, "rule");
  EXPECT_NE(t.to_text().find("what fake 1 chose is not legal: tile * unroll must be at most 8"),
            std::string::npos);
}

TEST_F(ChoiceTest, AKnobThatTheRuleDoesNotKnowIsSaid) {
  const Template t = made_with({{"tile", 2}, {"colour", 7}});
  EXPECT_EQ(t.default_config().values, (std::vector<int64_t>{2, 2}));
  EXPECT_NE(t.to_text().find("row: tree row names 'colour', which is no knob here"),
            std::string::npos);
}

TEST_F(ChoiceTest, TheCacheKnowsTheSourceAndItsVersion) {
  EXPECT_EQ(made().default_config().values[0], 4);
  EXPECT_EQ(made_with({{"tile", 2}}).default_config().values[0], 2);
  install_choice_source(
      std::make_shared<FakeSource>(std::map<std::string, int64_t>{{"tile", 1}}, "fake 2"));
  EXPECT_EQ(made().default_config().values[0], 1);
  EXPECT_EQ(made({.use_heuristics = false}).default_config().values[0], 4);
  EXPECT_NE(install_choice_source(nullptr), nullptr);
  EXPECT_EQ(made().default_config().values[0], 4);
}

TEST_F(ChoiceTest, AKnobOfKindsHasItsLabels) {
  TemplateBuilder b(ComputeDag({Pair().C}), Target::host());
  b.consult(std::make_shared<FakeSource>(std::map<std::string, int64_t>{{"how", 2}}));
  const Choice choice =
      b.decide("row", Row{12}, [](const Row&) { return Choice().set("how", 0, "it is short"); });
  b.kind("how", {"whole", "blocked", "split"}, choice, {0, 2});
  const Template t = b.finish("mine");
  EXPECT_EQ(t.knobs()[0].values, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(t.config_to_json(t.default_config()).dump(), R"({"how":"split"})");
}

TEST_F(ChoiceTest, AKnobOfKindsOffersAllOfThem) {
  TemplateBuilder b(ComputeDag({Pair().C}), Target::host());
  const Choice choice =
      b.decide("row", Row{12}, [](const Row&) { return Choice().set("how", 0, "it is short"); });
  b.kind("how", {"whole", "blocked", "split"}, choice);
  EXPECT_EQ(b.finish("mine").knobs()[0].values, (std::vector<int64_t>{0, 1, 2}));
}

// What a record means does not depend on who chose the defaults.
TEST_F(ChoiceTest, TheFingerprintIsTheSame) {
  const uint64_t of_rule = made().fingerprint();
  EXPECT_EQ(made_with({{"tile", 2}}).fingerprint(), of_rule);
}

}  // namespace
}  // namespace heddle::testing
