// The loops of the static choice for typical declarations, compared with checked-in text: the
// decisions with their reasons, then the loop nests before they are vectorised and unrolled. First
// by the rules alone; then as users get them, with the shipped records and trees, where these
// decide otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "environment.h"
#include "golden/golden.h"
#include "golden/subjects.h"
#include "golden/text_diff.h"
#include "heddle/codegen/llvm.h"
#include "heddle/driver/build.h"
#include "heddle/ir/print.h"
#include "heddle/lower/lower.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "lower/lower_testing.h"
#include "source_dir.h"

namespace heddle::testing {
namespace {

std::string decisions(const Template& t) {
  std::string out;
  for (const Knob& k : t.knobs()) {
    out += k.meta_template + ": " + k.name + " = " + k.text_of(k.default_value) + " of {" +
           k.values_text() + "}" + (k.reason.empty() ? "" : ": " + k.reason) + "\n";
  }
  for (const std::string& note : t.notes()) out += "note: " + note + "\n";
  return out;
}

// As lowering simplifies them first.
std::string loops(const Schedule& s, const std::vector<Tensor>& args) {
  LowerOptions options;
  options.keep_passes = true;
  const LoweredProgram p = lower(s, args, options);
  for (const PassRecord& pass : p.passes) {
    if (pass.name != "simplify") continue;
    return (pass.prepare.body ? to_string(pass.prepare) : "") + to_string(pass.main);
  }
  throw_user_error("lowering has no pass of the name 'simplify'");
}

Template template_of(const GoldenSubject& s) {
  return make_static_template(ComputeDag(s.outputs), Target::parse(s.target), s.options);
}

std::string heading(const GoldenSubject& s, const Schedule& schedule) {
  std::string from = schedule.provenance;
  // A record is named by its file, which lies in the checkout.
  const std::string checkout = std::filesystem::canonical(source_dir()).string() + "/";
  if (const size_t at = from.find(checkout); at != std::string::npos)
    from.erase(at, checkout.size());
  return s.what + "\n" + s.target + "\n" + from + "\n\n";
}

std::string loops_of(const GoldenSubject& s, const Schedule& schedule) {
  return "== loops ==\n" + loops(schedule, all_args(ComputeDag(s.outputs)));
}

std::string text_of(const GoldenSubject& s) {
  const Template t = template_of(s);
  const Schedule schedule = t.static_schedule();
  return heading(s, schedule) + "== decisions ==\n" + decisions(t) + "\n" + loops_of(s, schedule);
}

Schedule schedule_with(const std::string& tophub, const GoldenSubject& s) {
  const Variable variable("HEDDLE_TOPHUB", tophub), no_log("HEDDLE_LOG_FILE", "");
  return create_schedule(s.outputs, Target::parse(s.target), s.options);
}

/// What users get, where that is another schedule than the one of the rules; else "".
std::string shipped_text_of(const GoldenSubject& s) {
  const Schedule shipped = schedule_with("", s), rules = schedule_with("off", s);
  if (shipped.to_json() == rules.to_json()) return "";
  return heading(s, shipped) + loops_of(s, shipped);
}

struct FolderOfSubjects {
  std::string folder;
  std::vector<GoldenSubject> subjects;
};

const std::vector<FolderOfSubjects>& all_subjects() {
  static const std::vector<FolderOfSubjects> all = {{"cpu", cpu_subjects()},
                                                    {"cuda", cuda_subjects()}};
  return all;
}

class GoldenLoops : public ::testing::TestWithParam<std::pair<std::string, GoldenSubject>> {};

TEST_P(GoldenLoops, AreThoseCheckedIn) {
  const Variable rules_alone("HEDDLE_TOPHUB", "off");
  const auto& [folder, subject] = GetParam();
  expect_golden(folder + "/" + subject.name, text_of(subject));
}

// A subject has a file in the folder "shipped" where what is shipped changes its schedule.
TEST_P(GoldenLoops, WithWhatIsShippedAreThoseCheckedIn) {
  const auto& [folder, subject] = GetParam();
  const std::string name = folder + "/shipped/" + subject.name, text = shipped_text_of(subject);
  if (text.empty())
    expect_no_golden(name);
  else
    expect_golden(name, text);
}

std::vector<std::pair<std::string, GoldenSubject>> params() {
  std::vector<std::pair<std::string, GoldenSubject>> out;
  for (const auto& [folder, subjects] : all_subjects()) {
    for (const GoldenSubject& s : subjects) out.emplace_back(folder, s);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Loops, GoldenLoops, ::testing::ValuesIn(params()), [](const auto& info) {
  return info.param.first + "_" + info.param.second.name;
});

TEST(GoldenSubjects, ShowEveryMetaTemplate) {
  const Variable rules_alone("HEDDLE_TOPHUB", "off");
  std::set<std::string> shown;
  for (const auto& [folder, subjects] : all_subjects()) {
    for (const GoldenSubject& s : subjects) {
      const Template t = template_of(s);
      shown.insert(t.name());
      for (const Knob& k : t.knobs()) shown.insert(k.meta_template);
    }
  }
  for (const std::string& name : meta_template_names())
    EXPECT_THAT(shown, ::testing::Contains(name)) << "add a subject that it takes to tests/golden";
}

TEST(GoldenSubjects, HaveAFileEachAndNoOthers) {
  for (const auto& [folder, subjects] : all_subjects()) {
    std::vector<std::string> names;
    for (const GoldenSubject& s : subjects) names.push_back(folder + "/" + s.name);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
    expect_no_other_goldens(folder, names);
    for (std::string& name : names) name.insert(folder.size(), "/shipped");
    expect_no_other_goldens(folder + "/shipped", names);
  }
}

// All kinds of what is shipped are among the goldens.
TEST(GoldenSubjects, ShowARecordATreeAndConstants) {
  bool record = false, tree = false, constants = false;
  for (const auto& [folder, subjects] : all_subjects()) {
    for (const GoldenSubject& s : subjects) {
      const std::string from = schedule_with("", s).provenance;
      record |= from.find("record") != std::string::npos;
      tree |= from.find("tree ") != std::string::npos;
      constants |= from.starts_with("analytic rule") && !shipped_text_of(s).empty();
    }
  }
  EXPECT_TRUE(record);
  EXPECT_TRUE(tree);
  EXPECT_TRUE(constants);
}

TEST(UnifiedDiff, ShowsWhatLeftAndWhatCameWithLinesAround) {
  EXPECT_EQ(unified_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nx\ne\nf\n"),
            "@@ line 2 @@\n b\n c\n-d\n+x\n e\n f\n");
  EXPECT_EQ(unified_diff("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(unified_diff("", "a\n"), "@@ line 1 @@\n+a\n");
}

TEST(UnifiedDiff, BeginsAnewWherePartsLieApartAndSaysHowMuchIsLeftOut) {
  EXPECT_EQ(unified_diff("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n"),
            "@@ line 1 @@\n-a\n+A\n 1\n 2\n@@ line 6 @@\n 5\n 6\n-b\n+B\n");
  EXPECT_EQ(unified_diff("a\nb\nc\n", "", 2), "@@ line 1 @@\n-a\n-b\n... and 1 more lines\n");
}

// A schedule for an instruction that code generation does not recognise is slow but correct, so no
// other test finds it.
TEST(GoldenLoops, CodeGenerationRecognisesWhatSchedulesExpect) {
  const Variable rules_alone("HEDDLE_TOPHUB", "off");
  std::set<std::string> instructions;
  for (const GoldenSubject& s : cpu_subjects()) {
    const Schedule schedule = template_of(s).static_schedule();
    const LoweredProgram p = lower(schedule, all_args(ComputeDag(s.outputs)));
    std::vector<LoweredFunction> functions{p.main};
    if (p.prepare.body) functions.push_back(p.prepare);
    for (const ExpectedInstruction& e : expected_instructions(functions, schedule.target())) {
      EXPECT_FALSE(e.missed()) << s.name << ": " << e.instruction << " in " << e.buffer;
      EXPECT_LE(e.found, e.stores);
      instructions.insert(e.instruction);
    }
  }
  EXPECT_EQ(instructions, (std::set<std::string>{"amx", "dot_product", "transposed_square"}));
}

}  // namespace
}  // namespace heddle::testing
