// What a run of learning found, as text and as JSON.
#include <algorithm>

#include "heddle/heuristics/learn.h"
#include "heuristics/learn/constants_file.h"
#include "support/table.h"

namespace heddle {
namespace {

std::string ratio_text(double ratio) { return ratio > 0 ? format_fixed(ratio, 3) : "-"; }

std::string answer_of(const Lesson& lesson) {
  switch (lesson.end) {
    case LessonEnd::TooFew: return "too few problems: the rule stays";
    case LessonEnd::NotProven: return "not proven to gain: the rule stays";
    case LessonEnd::Taken: return "a tree answers from now on";
    case LessonEnd::NoTime: return "too little time for the constants: all stays as it was";
  }
  return "";
}

std::string text_of(const std::vector<MovedConstant>& constants) {
  if (constants.empty()) return "";
  Table table({"constant", "from", "to", "unit", "held out", "changed", "gain"});
  table.align_left(3);
  for (const MovedConstant& m : constants) {
    table.add_row({m.name, Json(m.from).dump(), Json(m.to).dump(), m.unit,
                   std::to_string(m.problems), std::to_string(m.changed),
                   format_fixed(m.gain, 3) + " +- " + format_fixed(m.error, 3)});
  }
  return "\nConstants of rules that moved (heddle heuristic constants):\n" + table.to_string();
}

std::string text_of(const CertificateCalibration& certificates) {
  if (certificates.all.empty()) return "";
  int problems = 0, within = 0;
  for (const CertificateBin& b : certificates.all) {
    problems += b.problems;
    within += b.within;
  }
  return "Of " + std::to_string(problems) + " choices that were held out, " +
         format_fixed(100.0 * within / problems, 0) +
         " % were within 5 % of the best. Certificates say how likely that is, and are " +
         format_fixed(certificates.error(), 3) +
         " off on average (heddle heuristic certificates).\n";
}

}  // namespace

const char* to_string(LessonEnd end) {
  switch (end) {
    case LessonEnd::TooFew: return "too few";
    case LessonEnd::NotProven: return "not proven";
    case LessonEnd::Taken: return "taken";
    case LessonEnd::NoTime: return "no time";
  }
  return "";
}

Json LearnReport::to_json() const {
  Json list = Json::array();
  for (const Lesson& l : lessons) {
    list.push_back(Json::object({{"heuristic", l.heuristic},
                                 {"collected", l.collected},
                                 {"problems", l.problems},
                                 {"noisy", l.noisy},
                                 {"repeated", l.repeated},
                                 {"waited_seconds", l.waited_seconds},
                                 {"failed", static_cast<int64_t>(l.failures.size())},
                                 {"rule_over_best", l.rule_over_best},
                                 {"tree_over_best", l.tree_over_best},
                                 {"tree_over_rule", l.tree_over_rule},
                                 {"unsure", l.unsure},
                                 {"end", to_string(l.end)},
                                 {"file", l.file}}));
  }
  Json moved = Json::array();
  for (const MovedConstant& m : constants) moved.push_back(learning::moved_json(m));
  return Json::object({{"folder", folder},
                       {"cancelled", cancelled},
                       {"set_aside", Json::array_of(set_aside)},
                       {"lessons", std::move(list)},
                       {"constants", std::move(moved)},
                       {"certificates", certificates.to_json()}});
}

std::string LearnReport::to_text() const {
  if (lessons.empty() && constants.empty())
    return "nothing was learned for this machine in " + folder + "\n";
  Table table({"heuristic", "problems", "noisy", "rule/best", "tree/best", "gain", "unsure", ""});
  table.align_left(7);
  for (const Lesson& l : lessons) {
    const bool known = l.tree_over_rule > 0;
    table.add_row({l.heuristic, std::to_string(l.problems), std::to_string(l.noisy),
                   ratio_text(l.rule_over_best), ratio_text(l.tree_over_best),
                   ratio_text(known ? 1 / l.tree_over_rule : 0),
                   known ? format_fixed(100 * l.unsure, 0) + " %" : "-", answer_of(l)});
  }
  std::string text = table.to_string();
  text += "Ratios are geometric means over problems that the answering trees had not seen.\n";
  for (const std::string& sentence : set_aside) text += sentence + ".\n";
  text += text_of(constants);
  text += text_of(certificates);
  int repeated = 0;
  double waited = 0;
  for (const Lesson& l : lessons) {
    repeated += l.repeated;
    waited += l.waited_seconds;
  }
  if (repeated > 0)
    text += std::to_string(repeated) +
            " problems were too uncertain and were measured again, after waiting for quiet for " +
            format_fixed(waited, 0) + " s.\n";
  const Lesson noisy = lessons.empty() ? Lesson() : std::ranges::max(lessons, {}, &Lesson::noisy);
  if (4 * noisy.noisy > noisy.problems)
    text += "The machine was busy: " + std::to_string(noisy.noisy) + " of " +
            std::to_string(noisy.problems) + " problems of " + noisy.heuristic +
            " are too uncertain to learn from. Try again when it is quiet.\n";
  return text + "The measurements are in " + folder + "; the same command goes on from them.\n";
}

}  // namespace heddle
