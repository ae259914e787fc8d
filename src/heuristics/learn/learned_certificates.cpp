#include "heuristics/learn/learned_certificates.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "heddle/support/error.h"
#include "support/log.h"

namespace heddle::learning {

LearnedCertificates::LearnedCertificates(const Target& target, std::string path, std::string date)
    : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path_, error)) {
    try {
      certificates_ = read_certificates(path_, target.kind);
    } catch (const Error& e) {
      HEDDLE_LOG_AT("heuristics", 1, e.message);  // it is written anew
    }
  }
  certificates_.kind = target.kind;
  certificates_.target = to_string(target);
  certificates_.date = std::move(date);
}

void LearnedCertificates::add(const HeuristicData& data, const TreeEvaluation& held_out,
                              bool tree_answers, const std::vector<CalibrationRace>& races) {
  std::map<std::string, double> least;
  for (const CalibrationRace& r : races) least[r.id] = r.least_seconds;
  std::map<std::string, const EvaluatedProblem*> answers;
  for (const EvaluatedProblem& p : held_out.problems) answers[p.id] = &p;
  std::vector<std::int32_t> judged;
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < data.problems.size(); ++i) {
    const std::string& id = data.problems[i].id;
    const auto at = answers.find(id);
    if (at == answers.end()) continue;
    const double seconds = tree_answers ? at->second->seconds : at->second->rule;
    Outcome outcome{.within = seconds <= (1 + kCertifiedShare) * at->second->best};
    if (const auto known = least.find(id); known != least.end() && known->second > 0)
      outcome.slower = std::log(seconds / known->second);
    judged.push_back(static_cast<std::int32_t>(i));
    outcomes.push_back(outcome);
  }
  std::vector<ShareTree> grown = grow_shares(subset(data, judged), outcomes);
  if (grown.empty()) return;
  std::vector<ShareTree>& classes = certificates_.classes;
  std::erase_if(classes, [&](const ShareTree& t) { return t.heuristic == data.heuristic; });
  classes.insert(std::ranges::upper_bound(classes, data.heuristic, {}, &ShareTree::heuristic),
                 std::move(grown.front()));
}

}  // namespace heddle::learning
