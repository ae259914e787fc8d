#include "report/log_data.h"

#include <algorithm>
#include <map>
#include <set>

#include "heddle/dag/alternatives.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/records/database.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

// Seconds. A longer pause between two records is not part of tuning, such as a night between two
// runs.
constexpr double kBreakSeconds = 60;

// Whether `a` replaces `b`. Records of a race outrank those of screening, and later records win
// ties.
bool beats(const Record& a, const Record* b) {
  if (!a.ok()) return false;
  if (b == nullptr) return true;
  if (a.raced() != b->raced()) return a.raced();
  return a.median() <= b->median();
}

// Seconds of tuning at each record. Records store whole seconds, so those of one second are spread
// over it.
std::vector<double> times_of(const std::vector<Record>& records, LogData* data) {
  std::vector<double> at(records.size());
  double left_out = 0;
  const double begin = records.empty() ? 0 : static_cast<double>(records[0].unix_time);
  for (size_t i = 0; i < records.size();) {
    size_t end = i;
    while (end < records.size() && records[end].unix_time == records[i].unix_time) ++end;
    const double second = static_cast<double>(records[i].unix_time);
    if (i > 0) {
      const double pause = second - static_cast<double>(records[i - 1].unix_time);
      // Time is made monotonic, because there may be several logs, or a clock that was set back.
      if (pause > kBreakSeconds || pause < 0) {
        left_out += pause - 1;
        data->resumed.push_back(second - begin - left_out);
      }
    }
    for (size_t k = i; k < end; ++k) {
      at[k] = second - begin - left_out + static_cast<double>(k - i) / static_cast<double>(end - i);
    }
    i = end;
  }
  if (!at.empty()) data->seconds = at.back() + 1;
  return at;
}

std::string name_of(const Record& r) {
  if (!r.subject.empty()) return r.subject;
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(r.structural_hash));
  return text;
}

// Tasks with equal names differ in their targets, mostly in the number of threads.
void tell_apart(std::vector<TaskLog>* tasks) {
  std::map<std::string, int> count;
  for (const TaskLog& t : *tasks) ++count[t.name];
  std::set<std::string> taken;
  for (TaskLog& t : *tasks) {
    if (count[t.name] > 1) {
      t.name += ", " + std::to_string(t.trials[0].record->target.cores) + " threads";
    }
    for (int n = 2; !taken.insert(t.name).second; ++n) t.name += " #" + std::to_string(n);
  }
}

// The last decision of tuning: the winner of a race, ranked as in RecordDatabase, or the choice
// without a race.
const Record* decision_of(const TaskLog& task) {
  return task.won != nullptr ? task.won : task.chosen;
}

// Times of one race belong together, so the static choice's time is the one beside the winner.
bool after_the_decision(const Record* record, const TaskLog& task) {
  return task.won != nullptr && record > task.won;
}

void add_to_curve(TaskLog* task, const Record& r, double at) {
  if (!r.ok()) return;
  const Verdict v = r.verdict;
  const bool decides = v == Verdict::Won || v == Verdict::Chosen;
  const double best = task->curve.empty() ? r.median() : task->curve.back().seconds;
  // A race times again what was timed before, so only its winner counts.
  if (v == Verdict::Raced || (!decides && !task->curve.empty() && r.median() >= best)) return;
  task->curve.push_back({at, task->trials.size(), r.median()});
}

bool is_static(const Declared& declared, const Record& r) {
  if (r.alternative != declared.static_alternative) return false;
  const Json config = declared.in_todays_names ? declared.in_todays_names(r.config) : r.config;
  return config == declared.static_config;
}

void find_static_and_best(TaskLog* task, const FindDeclared& find) {
  task->bytes = task->trials[0].record->bytes;
  const std::optional<Declared> declared =
      find ? find(*task->trials[0].record) : std::optional<Declared>();
  if (declared) {
    task->alternatives = declared->alternatives;
    if (task->bytes <= 0) task->bytes = declared->bytes;
    task->static_known = !declared->static_config.is_null();
  }
  const Record* first_ran = nullptr;
  for (const LogTrial& t : task->trials) {
    const Record& r = *t.record;
    if (r.error != MeasureError::None) ++task->failures;
    if (beats(r, task->best)) task->best = &r;
    if (first_ran == nullptr && r.ok()) first_ran = &r;
    if (!task->static_known || !r.ok() || !is_static(*declared, r)) continue;
    // Of several measurements that of the last race counts, which was timed side by side with the
    // best.
    if (after_the_decision(&r, *task)) continue;
    if (task->first == nullptr || r.raced() || !task->first->raced()) task->first = &r;
  }
  if (const Record* decision = decision_of(*task)) task->best = decision;
  if (!task->curve.empty() && task->curve.back().seconds != task->best_seconds()) {
    const LogTrial& last = task->trials.back();
    task->curve.push_back({last.at, task->trials.size(), task->best_seconds()});
  }
  if (task->first != nullptr) return;
  task->static_known = false;
  task->first = first_ran;
  // Later measurements of the schedule are better than the first one.
  if (first_ran == nullptr) return;
  for (const LogTrial& t : task->trials) {
    const bool same =
        t.record->config == first_ran->config && t.record->alternative == first_ran->alternative;
    if (t.race && t.record->ok() && same && !after_the_decision(t.record, *task))
      task->first = t.record;
  }
}

}  // namespace

double TaskLog::speedup() const {
  return first != nullptr && best != nullptr ? static_seconds() / best_seconds() : 0;
}

bool TaskLog::screened() const { return best != nullptr && best->verdict == Verdict::Screened; }

double flops_per_second(const Record& record) {
  return record.ok() ? record.flops / record.median() : 0;
}

std::optional<Declared> declared_subject(const Record& record) {
  for (const DataType dtype : {f32, f64, bf16, f16, i8, i32}) {
    try {
      const Problem problem = make_problem(record.subject, dtype);
      const ComputeDag dag(problem.outputs);
      if (dag.structural_hash() != record.structural_hash) continue;
      Declared declared;
      const Template t = make_static_template(dag, record.target);
      declared.static_alternative = t.dag().alternative();
      declared.alternatives = alternatives_of(dag, record.target, {});
      declared.bytes = static_cast<double>(problem.bytes);
      if (t.fingerprint() == record.template_version) {
        declared.static_config = t.config_to_json(t.default_config());
        declared.in_todays_names = [t](const Json& config) {
          try {
            return t.config_to_json(t.config_from_json(config));
          } catch (const Error& error) {
            if (error.kind == ErrorKind::Internal) throw;
            return config;  // the config belongs to another template
          }
        };
      }
      return declared;
    } catch (const Error& error) {
      if (error.kind == ErrorKind::Internal)
        throw;  // otherwise the subject is unknown or does not have this type
    }
  }
  return std::nullopt;
}

LogData log_data(std::vector<Record> records,
                 const std::vector<std::pair<std::string, double>>& calls,
                 const FindDeclared& find) {
  LogData data;
  data.records = std::move(records);
  const std::vector<double> at = times_of(data.records, &data);
  std::map<std::pair<uint64_t, std::string>, size_t> index;
  for (size_t i = 0; i < data.records.size(); ++i) {
    const Record& r = data.records[i];
    const auto [found, added] =
        index.try_emplace({r.structural_hash, to_string(r.target)}, data.tasks.size());
    if (added) {
      data.tasks.emplace_back();
      data.tasks.back().name = name_of(r);
    }
    TaskLog& task = data.tasks[found->second];
    const Verdict verdict = r.verdict;
    if (verdict == Verdict::Chosen) {  // not a trial, but the choice among trials
      if (r.ok()) task.chosen = &r;
    } else {
      task.trials.push_back({&r, at[i], r.raced()});
    }
    if (verdict == Verdict::Won && r.ok()) task.won = &r;
    add_to_curve(&task, r, at[i]);
  }
  for (TaskLog& task : data.tasks) {
    find_static_and_best(&task, find);
    // Of several networks the last tuned one counts.
    task.calls = task.trials.back().record->calls;
    for (const auto& [name, n] : calls) {
      if (name == task.name) task.calls = n;
    }
  }
  tell_apart(&data.tasks);
  const bool all = std::all_of(data.tasks.begin(), data.tasks.end(),
                               [](const TaskLog& t) { return t.best != nullptr; });
  for (const TaskLog& t : data.tasks) {
    if (!all) break;
    data.static_total += t.calls * t.static_seconds();
    data.best_total += t.calls * t.best_seconds();
  }
  return data;
}

std::string numbered(const LogData& data, size_t i) {
  return std::to_string(i + 1) + ". " + data.tasks[i].name;
}

}  // namespace heddle::cli
