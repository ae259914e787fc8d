// Writes the log of a heuristic.
#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "heddle/heuristics/collect.h"
#include "heddle/support/error.h"
#include "support/files/file.h"
#include "support/files/line_log.h"

namespace heddle {

struct HeuristicLog::Impl {
  Heuristic heuristic;
  LineLog lines;
  HeuristicData header;
  std::set<std::string> problems;
};

namespace {

// Checks that the log of an earlier run belongs to the same heuristic.
void check_same(const std::string& path, const HeuristicData& log, const HeuristicData& ours) {
  const auto refuse = [&](const std::string& what, const std::string& theirs,
                          const std::string& mine) {
    throw_user_error(
        "the log '" + path + "' is of " + what + " '" + theirs + "', not '" + mine + "'", {},
        "name another log");
  };
  if (log.heuristic != ours.heuristic) refuse("heuristic", log.heuristic, ours.heuristic);
  if (log.version != ours.version) refuse("version", log.version, ours.version);
  if (log.target != ours.target) refuse("target", log.target, ours.target);
  if (log.features != ours.features)
    throw_user_error(
        "the log '" + path + "' has other features than heuristic '" + ours.heuristic + "'", {},
        "name another log");
}

}  // namespace

HeuristicLog::HeuristicLog(std::string path, const Heuristic& heuristic, std::string machine,
                           std::string target, std::uint64_t seed) {
  HeuristicData header;
  header.heuristic = heuristic.name;
  header.version = std::to_string(heuristic.version);
  header.machine = std::move(machine);
  header.target = std::move(target);
  header.seed = seed;
  header.features = heuristic.all_features();
  impl_.reset(new Impl{heuristic, LineLog(std::move(path), "heuristic's log"), header, {}});
  if (impl_->lines.append_first(heuristic_log_header(header).dump())) return;
  const HeuristicData earlier = read_heuristic_log(impl_->lines.path());
  check_same(impl_->lines.path(), earlier, header);
  for (const HeuristicProblem& p : earlier.problems) impl_->problems.insert(p.id);
}

HeuristicLog::~HeuristicLog() = default;

bool HeuristicLog::has(const std::string& problem) const {
  return impl_->problems.contains(problem);
}
std::size_t HeuristicLog::size() const { return impl_->problems.size(); }

void HeuristicLog::add(const std::string& problem, const NamedFeatures& features,
                       const std::vector<std::pair<ParameterSet, double>>& choices, double noise) {
  std::vector<std::pair<std::string, double>> ids;
  ids.reserve(choices.size());
  for (const auto& [choice, seconds] : choices)
    ids.emplace_back(impl_->heuristic.id_of(choice), seconds);
  add(problem, features, ids, noise);
}

void HeuristicLog::add(const std::string& problem, const NamedFeatures& features,
                       const std::vector<std::pair<std::string, double>>& ids, double noise,
                       const std::map<std::string, double>& of_constants) {
  HeuristicData data = impl_->header;
  HeuristicProblem row;
  row.id = problem;
  row.features = impl_->heuristic.values_of(features);
  row.noise = noise;
  row.of_constants = of_constants;
  const std::string fallback = impl_->heuristic.id_of(impl_->heuristic.fallback);
  row.fallback = -1;
  for (const auto& [id, seconds] : ids) {
    if (id == fallback) row.fallback = static_cast<std::int32_t>(data.choices.size());
    data.choices.push_back(id);
    row.seconds.push_back(seconds);
  }
  if (row.fallback < 0 || !row.has(row.fallback))
    throw_user_error("problem '" + problem + "' has no time of the fallback " + fallback, {},
                     "measure the fallback beside the other choices");
  impl_->lines.append(heuristic_log_line(data, row).dump());
  impl_->problems.insert(problem);
}

}  // namespace heddle
