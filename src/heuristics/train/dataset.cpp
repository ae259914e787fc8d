#include "heddle/heuristics/dataset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle {

bool HeuristicProblem::has(std::int32_t choice) const {
  return choice >= 0 && static_cast<std::size_t>(choice) < seconds.size() &&
         !std::isnan(seconds[static_cast<std::size_t>(choice)]);
}

double HeuristicProblem::best() const {
  double least = std::numeric_limits<double>::infinity();
  for (const double t : seconds) least = std::fmin(least, t);  // fmin ignores NaN
  return least;
}

std::int64_t HeuristicData::measurements() const {
  std::int64_t count = 0;
  for (const HeuristicProblem& p : problems) {
    count +=
        std::count_if(p.seconds.begin(), p.seconds.end(), [](double t) { return !std::isnan(t); });
  }
  return count;
}

HeuristicData subset(const HeuristicData& data, const std::vector<std::int32_t>& problems) {
  HeuristicData part = data;
  part.problems.clear();
  part.skipped.clear();
  for (const std::int32_t p : problems) {
    part.problems.push_back(data.problems[static_cast<std::size_t>(p)]);
  }
  return part;
}

std::vector<std::int32_t> folds_of(const HeuristicData& data, int folds, std::uint64_t seed) {
  std::vector<std::int32_t> order(data.problems.size());
  std::iota(order.begin(), order.end(), 0);
  Rng(seed).shuffle(order);
  std::vector<std::int32_t> fold(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    fold[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i) % folds;
  }
  return fold;
}

namespace {

void check_same_heuristic(const HeuristicData& a, const HeuristicData& b) {
  const auto refuse = [&](const std::string& what, const std::string& x, const std::string& y) {
    throw_user_error("logs of two " + what + " cannot be merged: '" + x + "' and '" + y + "'", {},
                     "give logs that one version of one heuristic wrote");
  };
  if (a.heuristic != b.heuristic) refuse("heuristics", a.heuristic, b.heuristic);
  if (a.version != b.version) refuse("versions of a heuristic", a.version, b.version);
  if (a.features != b.features) {
    throw_user_error("the logs of '" + a.heuristic + "' declare different features", {},
                     "collect the older log anew");
  }
}

/// The list `a` with `b`, where it is not in it.
std::string joined(const std::string& a, const std::string& b) {
  const bool has = (", " + a + ",").find(", " + b + ",") != std::string::npos;
  return has || b.empty() ? a : a.empty() ? b : a + ", " + b;
}

}  // namespace

HeuristicData merge(const std::vector<HeuristicData>& logs) {
  if (logs.empty()) throw_user_error("there are no logs to merge", {}, "name a log");
  HeuristicData all = logs[0];
  std::map<std::string, HeuristicProblem> problems;
  std::map<std::string, std::int32_t> choice_index;
  for (const HeuristicData& log : logs) {
    check_same_heuristic(all, log);
    for (const std::string& choice : log.choices) choice_index.emplace(choice, 0);
  }
  all.choices.clear();
  for (auto& [choice, index] : choice_index) {
    index = static_cast<std::int32_t>(all.choices.size());
    all.choices.push_back(choice);
  }
  // The same problem on another machine, or for another number of threads, is another one.
  const auto source_of = [](const HeuristicData& log) {
    return log.machine.empty() ? log.target : log.machine + " " + log.target;
  };
  const std::string first = source_of(all);
  all.skipped.clear();
  for (const HeuristicData& log : logs) {
    if (&log != logs.data()) {
      all.machine = joined(all.machine, log.machine);
      all.target = joined(all.target, log.target);
    }
    all.skipped.insert(all.skipped.end(), log.skipped.begin(), log.skipped.end());
    for (const HeuristicProblem& p : log.problems) {
      HeuristicProblem moved = p;
      moved.seconds.assign(all.choices.size(), kNotMeasured);
      for (std::size_t c = 0; c < p.seconds.size(); ++c) {
        moved.seconds[static_cast<std::size_t>(choice_index.at(log.choices[c]))] = p.seconds[c];
      }
      moved.fallback = choice_index.at(log.choices[static_cast<std::size_t>(p.fallback)]);
      if (const std::string source = source_of(log); source != first && !source.empty())
        moved.id += " on " + source;
      const std::string id = moved.id;
      problems.insert_or_assign(id, std::move(moved));
    }
  }
  all.problems.clear();
  for (auto& [id, problem] : problems) all.problems.push_back(std::move(problem));
  return all;
}

}  // namespace heddle
