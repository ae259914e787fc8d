// Converts logs of tuning to training data.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "heddle/heuristics/collect.h"
#include "heddle/records/record_log.h"
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"
#include "records/upgrade.h"
#include "report/sections.h"
#include "subjects/subjects.h"
#include "support/hashing/hex.h"

namespace heddle::cli {
namespace {

/// A key that distinguishes the schedules of one declaration, by the steps alone: records also hold
/// options and who chose.
std::string key_of(const std::string& alternative, const Json& schedule) {
  const Json* steps = schedule.find("steps");
  return alternative + " " + (steps != nullptr ? steps->dump() : "");
}

/// The records of one declaration for one target: times keyed by graph and steps, each relative to
/// the time of the static choice that was measured beside it, where there is one.
struct Measured {
  const Record* first = nullptr;
  std::map<std::string, double> seconds;
  /// Those of the declaration itself, with their times.
  std::vector<std::pair<const Record*, double>> configs;
  double base = 0;

  void add(const Record& r) {
    if (first == nullptr) first = &r;
    if (!r.ok()) return;
    if (base == 0) base = r.base_seconds;
    const double drift = base > 0 && r.base_seconds > 0 ? base / r.base_seconds : 1;
    seconds[key_of(r.alternative, r.steps)] = r.median() * drift;
    if (r.alternative.empty()) configs.emplace_back(&r, r.median() * drift);
  }
};

class FromRecords {
 public:
  FromRecords(const Heuristic& heuristic, const Declarations& declarations, HeuristicData& data)
      : h_(heuristic), declarations_(declarations), data_(data) {}

  void add(const Measured& m) {
    const std::optional<Problem> subject = declarations_.of(*m.first);
    if (!subject) return;
    for (std::size_t question = 0;; ++question) {
      const BuildOutcome outcome = build_choices(h_, subject->outputs, m.first->target, question);
      if (outcome.built.empty() || outcome.built.front().question != question) return;
      add(m, outcome.built.front());
    }
  }

 private:
  void add(const Measured& m, const BuiltChoices& built) {
    HeuristicProblem row;
    row.id = id_of(*m.first) +
             (built.question > 0 ? "#" + std::to_string(built.question) : std::string());
    row.features = h_.values_of(built.features);
    row.seconds.assign(data_.choices.size(), kNotMeasured);
    std::size_t known = 0;
    for (const auto& [id, schedule] : built.choices) {
      const Schedule& s = built.schedules[schedule];
      const auto at = m.seconds.find(key_of(s.dag().alternative(), steps_of(s)));
      if (at == m.seconds.end()) continue;
      ++known;
      row.seconds[column(id, row)] = at->second;
    }
    for (const auto& [id, time] : other_choices(m, built)) {
      const std::size_t c = column(id, row);
      if (std::isnan(row.seconds[c])) ++known;
      row.seconds[c] = time;
    }
    row.fallback = static_cast<std::int32_t>(column(built.fallback, row));
    if (known >= 2 && row.has(row.fallback)) data_.problems.push_back(std::move(row));
  }

  /// The subject. Nodes of networks that differ in a depth alone have one name, so that those after the first have
  /// their hash beside it.
  std::string id_of(const Record& record) {
    const auto [named, is_new] = named_.try_emplace(record.subject, record.structural_hash);
    if (is_new || named->second == record.structural_hash) return record.subject;
    return record.subject + " " + to_hex(record.structural_hash);
  }

  /// The choices of configs that differ from the rule's in knobs of the heuristic alone, of whatever
  /// values, with their times. Only a heuristic whose choices are knobs has such.
  std::map<std::string, double> other_choices(const Measured& m, const BuiltChoices& built) const {
    std::map<std::string, double> times;
    if (!h_.parameters.empty() || h_.of_graphs) return times;
    const Template& t = built.rule;
    for (const auto& [record, time] : m.configs) {
      if (record->template_version != t.fingerprint()) continue;
      try {
        const std::optional<ParameterSet> choice =
            moved(t, t.config_from_json(record->config), built.of_rule);
        if (choice && !choice->values().empty()) times[h_.id_of(*choice)] = time;
      } catch (const Error&) {
        // A log may contain anything.
      }
    }
    return times;
  }

  /// The knobs of the rule's choice in which a config differs; nothing where it differs in others.
  static std::optional<ParameterSet> moved(const Template& t, const Config& config,
                                           const Choice& of_rule) {
    const Config rule = t.default_config();
    ParameterSet choice;
    for (std::size_t k = 0; k < rule.values.size(); ++k) {
      if (config.values[k] == rule.values[k]) continue;
      const std::string& full = t.knobs()[k].name;
      const std::string knob = full.substr(full.rfind('.') + 1);  // without its group
      if (!of_rule.has(knob) || choice.has(knob)) return std::nullopt;
      choice.set(knob, config.values[k]);
    }
    return choice;
  }

  // A new choice becomes a column of all problems.
  std::size_t column(const std::string& id, HeuristicProblem& row) {
    for (std::size_t c = 0; c < data_.choices.size(); ++c) {
      if (data_.choices[c] == id) return c;
    }
    data_.choices.push_back(id);
    for (HeuristicProblem& p : data_.problems) p.seconds.push_back(kNotMeasured);
    row.seconds.push_back(kNotMeasured);
    return data_.choices.size() - 1;
  }

  const Heuristic& h_;
  const Declarations& declarations_;
  HeuristicData& data_;
  std::map<std::string, std::uint64_t> named_;  ///< the first declaration of each name
};

}  // namespace

namespace {

/// Whether the first line is a pick.
bool is_pick_log(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return false;
  try {
    return Json::parse(line).contains("pick");
  } catch (const Error&) {
    return false;
  }
}

/// The records in the picks of networks.
void add_picks(const std::string& file, TuningLogs& logs) {
  for (const PickRow& row : read_picks(file, logs.problems)) {
    for (const Json& record : row.records.is_null() ? std::vector<Json>() : row.records.elements())
      logs.records.push_back(Record::from_json(record));
  }
}

}  // namespace

TuningLogs read_tuning_logs(const std::vector<std::string>& files) {
  TuningLogs logs;
  for (const std::string& file : files) {
    if (is_pick_log(file)) {
      add_picks(file, logs);
      continue;
    }
    ReadResult read = read_records(file);
    logs.problems.insert(logs.problems.end(), read.problems.begin(), read.problems.end());
    std::ranges::move(read.records, std::back_inserter(logs.records));
  }
  return logs;
}

HeuristicData data_from_records(const TuningLogs& logs, const std::string& name,
                                const std::string& chip) {
  const Heuristic& heuristic = heuristic_of(name);
  HeuristicData data;
  data.heuristic = heuristic.name;
  data.version = std::to_string(heuristic.version);
  data.features = heuristic.all_features();
  data.skipped = logs.problems;
  std::map<std::pair<std::uint64_t, std::string>, Measured> declarations;
  for (const Record& r : logs.records) {
    if (r.target.kind != heuristic.target_kind) continue;
    if (!r.alternative.empty() && !heuristic.of_graphs) continue;
    if (!chip.empty() && r.target.chip() != chip) continue;
    data.target = to_string(r.target);
    data.machine = r.target.chip();
    declarations[{r.structural_hash, to_string(r.target)}].add(r);
  }
  const Declarations known(logs.records);
  FromRecords from(heuristic, known, data);
  for (const auto& [key, measured] : declarations) from.add(measured);
  // Columns and problems are in the order that a reader of logs gives them, each once.
  return merge({data});
}

}  // namespace heddle::cli
