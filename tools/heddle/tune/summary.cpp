#include "tune/summary.h"

#include <algorithm>
#include <map>

#include "common/alternatives_table.h"
#include "common/figures.h"
#include "support/table.h"
#include "tune/choice_text.h"
#include "tune/node_table.h"

namespace heddle::cli {
namespace {

// Failures over all tasks, the most frequent first: "12 crash, 3 timeout".
using Count = std::pair<std::string, int>;
std::vector<Count> sorted(const std::map<std::string, int>& counts) {
  std::vector<Count> list(counts.begin(), counts.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const Count& a, const Count& b) { return a.second > b.second; });
  return list;
}

std::vector<Count> failures_of(const TuneReport& report) {
  std::map<std::string, int> counts;
  for (const TaskResult& t : report.tasks) {
    for (const auto& [kind, n] : t.failures_by_kind) counts[to_string(kind)] += n;
  }
  return sorted(counts);
}

std::vector<Count> rejections_of(const TuneReport& report) {
  std::map<std::string, int> counts;
  for (const TaskResult& t : report.tasks) {
    for (const RejectionCount& r : t.rejections) counts[r.reason] += r.count;
  }
  return sorted(counts);
}

int sum_of(const std::vector<Count>& counts) {
  int total = 0;
  for (const Count& c : counts) total += c.second;
  return total;
}

std::string failures_text(const TuneReport& report) {
  const std::vector<Count> counts = failures_of(report);
  if (counts.empty()) return "";
  std::string out = count_text(sum_of(counts), "trial") + " failed: ";
  for (size_t i = 0; i < counts.size(); ++i) {
    out += (i > 0 ? ", " : "") + std::to_string(counts[i].second) + " " + counts[i].first;
  }
  return out + "\n";
}

std::string rejections_text(const TuneReport& report) {
  constexpr size_t kShown = 5;
  const std::vector<Count> counts = rejections_of(report);
  if (counts.empty()) return "";
  std::string out = count_text(sum_of(counts), "candidate") + " refused before measuring:\n";
  for (size_t i = 0; i < std::min(kShown, counts.size()); ++i) {
    out += "  " + count_text(counts[i].second, "time") + ": " + counts[i].first + "\n";
  }
  if (counts.size() > kShown) {
    out +=
        "  and " + count_text(static_cast<int64_t>(counts.size() - kShown), "other reason") + "\n";
  }
  return out;
}

// The shares of time, the largest first: "measure 41.2 s (70%), ...". The parts of one
// ("measure.compile") follow it.
std::string time_text(const TuneReport& report) {
  constexpr double kLeast = 0.005;  // smaller shares of the whole are left out
  std::vector<std::pair<std::string, double>> spent = report.time_spent;
  std::stable_sort(spent.begin(), spent.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  double total = 0;
  for (const auto& [name, seconds] : spent) {
    if (name.find('.') == std::string::npos) total += seconds;
  }
  if (total <= 0) return "";
  std::string out = "where the time went: ";
  std::map<std::string, std::string> parts;
  for (const auto& [name, seconds] : spent) {
    if (seconds < kLeast * total) continue;
    const size_t dot = name.find('.');
    if (dot == std::string::npos) {
      out += name + " " + format_time(seconds) + " (" + percent(seconds / total) + "), ";
    } else {
      parts[name.substr(0, dot)] += name.substr(dot + 1) + " " + format_time(seconds) + ", ";
    }
  }
  out.resize(out.size() - 2);
  for (const auto& [name, list] : parts) {
    out += "\n  " + name + ": " + list.substr(0, list.size() - 2);
  }
  return out + "\n";
}

// Why tuning ended, where the reason was not the budget.
std::string ended_text(const TuneReport& report) {
  if (report.cancelled) return " (stopped before its time)";
  if (report.ended == TuneEnd::Trials) return " (as many as were asked for)";
  if (report.ended == TuneEnd::Converged) return " (nothing more to gain)";
  if (report.ended == TuneEnd::Near) return " (near enough)";
  if (report.ended == TuneEnd::Failed) return " (it could not go on)";
  return "";
}

// How sure it is that more tuning would find little.
std::string near_text(const TuneReport& report) {
  double least = 1;
  bool known = false;
  for (const TaskResult& t : report.tasks) {
    if (t.near <= 0) continue;
    known = true;
    least = std::min(least, t.near);
  }
  if (!known) return "";
  return "within " + percent(report.within) + " of what more tuning would find with probability " +
         format_fixed(least, 2) + (report.tasks.size() > 1 ? " or more (column sure)" : "") +
         "; another minute would save " + format_fixed(100 * report.another_minute, 1) +
         "% of the time on average\n";
}

std::string model_text(const ModelAccuracy& m) {
  if (m.samples == 0) return "";
  return "model: rank correlation " + format_fixed(m.spearman, 2) + " over " +
         count_text(m.samples, "candidate") + " predicted before they were measured, " +
         percent(m.top10_recall) + " of the ten best among its ten best\n";
}

double per_second(const TuneReport& report) {
  return report.elapsed_seconds > 0 ? report.trials / report.elapsed_seconds : 0;
}

// How the race of a whole network ended.
std::string network_text(const NetworkTimes& n) {
  if (n.rounds == 0)
    return "the whole network was not raced: " + std::string(to_string(n.verdict)) + "\n";
  const bool plan = n.standing_seconds > 0;
  const double before = n.before_seconds();
  const std::string what = plan ? "the plan" : "static",
                    by_rule = plan && n.static_seconds > 0
                                  ? "; static takes " + format_time(n.static_seconds)
                                  : "";
  std::string out = "the whole network, in " + count_text(n.rounds, "round") + " of turns: ";
  if (n.verdict != RaceResult::Faster)
    return out + format_time(before) + ", a gain is not proven: " + what + " stays" + by_rule +
           "\n";
  return out + what + " " + format_time(before) + " -> " + format_time(n.best_seconds) + ", " +
         ratio(before / n.best_seconds) + ", with " + count_text(n.changed, "task") + " changed" +
         by_rule + "\n";
}

Json network_json(const NetworkTimes& n) {
  return Json::object({{"static_seconds", n.static_seconds},
                       {"standing_seconds", n.standing_seconds},
                       {"best_seconds", n.best_seconds},
                       {"rounds", n.rounds},
                       {"changed", n.changed},
                       {"verdict", to_string(n.verdict)}});
}

std::vector<AlternativeRow> alternative_rows(const TaskResult& t) {
  std::vector<AlternativeRow> rows;
  for (const AlternativeResult& a : t.alternatives) {
    rows.push_back({.name = a.name,
                    .template_name = a.template_name,
                    .numerics = a.numerics,
                    .error_growth = a.error_growth,
                    .seconds = a.best_seconds,
                    .trials = a.trials,
                    .used = a.why_not.empty() && a.name == t.schedule.dag().alternative(),
                    .why_not = a.why_not,
                    .config = a.config});
  }
  return rows;
}

// The alternatives of tasks, where there are few tasks. Those of a network are in the JSON and in
// the report.
std::string alternatives_of_tasks(const TuneReport& report, int columns) {
  constexpr size_t kFewTasks = 3;
  std::string out;
  for (const TaskResult& t : report.tasks) {
    if (report.tasks.size() > kFewTasks || t.alternatives.size() < 2) continue;
    out += "graphs of " + t.name + " (* is used):\n" +
           alternatives_text(alternative_rows(t), columns) + "\n";
  }
  return out;
}

Json task_json(const TaskResult& t, const TaskRow& row, double total_seconds) {
  Json j = Json::object();
  j["name"] = t.name;
  j["calls"] = row.calls;
  j["trials"] = t.trials;
  j["failures"] = t.failures;
  j["static_seconds"] = t.static_seconds;
  j["best_seconds"] = t.best_seconds;
  j["speedup"] = row.speedup();
  j["improved"] = t.improved;
  j["near"] = t.near > 0 ? Json(t.near) : Json();
  j["alternative"] = t.schedule.dag().alternative();
  j["alternatives"] = alternatives_json(alternative_rows(t));
  const bool compute = row.scale.bound == Bound::Compute;
  j[compute ? "gflops" : "gb_per_s"] = row.rate() * 1e-9;
  j["peak_share"] = row.scale.peak > 0 ? Json(row.peak_share()) : Json();
  j["share"] = total_seconds > 0 ? Json(row.total_seconds() / total_seconds) : Json();
  j["failures_by_kind"] = Json::object();
  for (const auto& [kind, n] : t.failures_by_kind) j["failures_by_kind"][to_string(kind)] = n;
  j["rejections"] = Json::array();
  for (const RejectionCount& r : t.rejections) {
    j["rejections"].push_back(Json::object({{"reason", r.reason}, {"count", r.count}}));
  }
  return j;
}

}  // namespace

std::string summary_text(const TuneOutcome& o, int columns) {
  std::string out;
  for (const std::string& line : table_lines(o.rows, {columns, INT_MAX})) out += line + "\n";
  const Overall sum = overall_of(o.rows);
  if (o.rows.size() > 1 && sum.best_seconds > 0) {
    out += "  overall static -> best  " + format_time(sum.static_seconds) + " -> " +
           format_time(sum.best_seconds) + ", " + ratio(sum.speedup()) + "\n";
  }
  if (o.report.network) out += "  " + network_text(*o.report.network);
  out += "\n";
  for (const TaskResult& t : o.report.tasks) {
    if (t.best_seconds <= 0) {
      out += t.name + ": nothing was measured\n";
    } else if (!t.improved) {
      out += t.name + ": nothing beat the static schedule, which stays\n";
    }
    if (const std::string& a = t.schedule.dag().alternative(); t.best_seconds > 0 && !a.empty())
      out += t.name + ": computed as " + a + "\n";
  }
  out += alternatives_of_tasks(o.report, columns);
  out += count_text(o.report.trials, "trial") + " in " + format_fixed(o.report.elapsed_seconds, 1) +
         " s, " + format_fixed(per_second(o.report), 1) + "/s";
  out += ended_text(o.report) + "\n" + near_text(o.report);
  for (const std::string& remark : o.report.remarks) out += "measured: " + remark + "\n";
  for (const std::string& line : node_lines(o.report.nodes, INT_MAX)) out += line + "\n";
  for (const std::string& problem : o.report.problems) out += "problem: " + problem + "\n";
  return out + failures_text(o.report) + rejections_text(o.report) + time_text(o.report) +
         model_text(o.report.model);
}

Json to_json(const TuneOutcome& o) {
  Json j = Json::object();
  j["subjects"] = Json::array_of(o.subjects);
  j["target"] = o.target;
  j["budget_seconds"] = o.budget_seconds;
  j["elapsed_seconds"] = o.report.elapsed_seconds;
  j["cancelled"] = o.report.cancelled;
  j["ended"] = to_string(o.report.ended);
  j["within"] = o.report.within;
  j["another_minute"] = o.report.another_minute;
  if (!o.report.failure.empty()) j["failure"] = Json(o.report.failure);
  j["trials"] = o.report.trials;
  j["trials_per_second"] = per_second(o.report);
  const Overall sum = overall_of(o.rows);
  j["static_seconds"] = sum.static_seconds;
  j["best_seconds"] = sum.best_seconds;
  j["speedup"] = sum.speedup();
  if (o.report.network) j["network"] = network_json(*o.report.network);
  if (!o.choices.trials.empty()) j["choices"] = choices_json(o.choices);
  if (!o.kernels.empty()) j["families"] = to_json(o.kernels);
  j["log"] = o.report.log;
  j["tasks"] = Json::array();
  for (size_t i = 0; i < o.rows.size(); ++i) {
    j["tasks"].push_back(task_json(o.report.tasks[i], o.rows[i], sum.best_seconds));
  }
  j["time_spent"] = Json::object();
  for (const auto& [name, seconds] : o.report.time_spent) j["time_spent"][name] = seconds;
  if (!o.report.nodes.empty()) j["nodes"] = nodes_json(o.report.nodes);
  j["problems"] = Json::array_of(o.report.problems);
  j["remarks"] = Json::array_of(o.report.remarks);
  const ModelAccuracy& m = o.report.model;
  j["model"] = Json::object({{"samples", m.samples},
                             {"spearman", m.spearman},
                             {"top10_recall", m.top10_recall},
                             {"best_of_top10", m.best_of_top10}});
  return j;
}

}  // namespace heddle::cli
