#include "records/train.h"

#include <iostream>
#include <map>
#include <optional>

#include "heddle/cost_model/cost_model.h"
#include "heddle/measure/measure.h"
#include "heddle/records/database.h"
#include "heddle/support/error.h"
#include "records/upgrade.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

struct TaskRows {
  std::string name;
  std::vector<TrainingRow> shown, held_out;
};

// The data from which the rows of a declaration are made. It is found once for all records.
struct Declared {
  TuneTask task;
  int records = 0;
};

std::optional<Declared> declare(const Record& r, const Declarations& declarations) {
  const std::optional<Problem> p = declarations.of(r);
  if (!p) return std::nullopt;
  return Declared{make_task(r.subject, p->outputs, r.target, p->args())};
}

std::vector<TaskRows> rows_of(const std::vector<Record>& records, int* skipped) {
  std::map<std::pair<uint64_t, std::string>, std::optional<Declared>> declared;
  std::map<uint64_t, TaskRows> tasks;
  const Declarations declarations(records);
  for (const Record& r : records) {
    auto [it, is_new] = declared.try_emplace({r.structural_hash, to_string(r.target)});
    if (is_new) it->second = declare(r, declarations);
    if (!it->second) {
      ++*skipped;
      continue;
    }
    const TuneTask& task = it->second->task;
    try {
      const Schedule schedule = schedule_of(r, task.tmpl.dag(), r.target);
      TrainingRow row{task.hash(), schedule_features(schedule, task.args),
                      r.ok() ? 1 / r.median() : 0};
      TaskRows& mine = tasks[row.task];
      mine.name = r.subject;
      (it->second->records++ % 4 == 3 ? mine.held_out : mine.shown).push_back(std::move(row));
    } catch (const Error&) {
      ++*skipped;  // the steps no longer apply
    }
  }
  std::vector<TaskRows> out;
  for (auto& [hash, rows] : tasks) out.push_back(std::move(rows));
  return out;
}

void print_accuracy(const std::vector<TaskRows>& tasks, CostModel& model) {
  constexpr size_t kEnough = 12;  // records, so that "the ten best" has a meaning
  Table table({"held out", "rows", "rank correlation", "ten best found", "best of ten"});
  double spearman = 0, recall = 0, best = 0;
  int counted = 0;
  for (const TaskRows& t : tasks) {
    if (t.held_out.size() < kEnough) continue;
    std::vector<Features> features;
    std::vector<double> measured;
    for (const TrainingRow& r : t.held_out) {
      features.push_back(r.features);
      measured.push_back(r.throughput);
    }
    const ModelAccuracy a = evaluate_ranking(model.predict(t.held_out[0].task, features), measured);
    table.add_row({t.name, std::to_string(a.samples), format_fixed(a.spearman, 2),
                   format_fixed(a.top10_recall, 2), format_fixed(a.best_of_top10, 3)});
    spearman += a.spearman;
    recall += a.top10_recall;
    best += a.best_of_top10;
    ++counted;
  }
  if (counted == 0) {
    std::cout << "too few records of any declaration to hold some out\n";
    return;
  }
  table.add_rule();
  table.add_row({"mean", "", format_fixed(spearman / counted, 2), format_fixed(recall / counted, 2),
                 format_fixed(best / counted, 3)});
  std::cout << table.to_string();
}

}  // namespace

void train_model(const std::vector<Record>& records, const std::string& path) {
  const std::string kind = records.empty() ? "llvm" : records[0].target.kind;
  for (const Record& r : records) {
    if (r.target.kind == kind) continue;
    throw_user_error("the records are of CPUs and of GPUs, and a model is for one of them", {},
                     "train on logs of one kind at a time");
  }
  int skipped = 0;
  const std::vector<TaskRows> tasks = rows_of(records, &skipped);
  std::vector<TrainingRow> shown, all;
  for (const TaskRows& t : tasks) {
    shown.insert(shown.end(), t.shown.begin(), t.shown.end());
    all.insert(all.end(), t.shown.begin(), t.shown.end());
    all.insert(all.end(), t.held_out.begin(), t.held_out.end());
  }
  if (skipped > 0) {
    std::cerr << "left out: " << skipped << " records whose subject or steps are not known here\n";
  }
  const auto judged = make_xgboost_model({.target_kind = kind});
  judged->update(shown);
  const auto model = make_xgboost_model({.target_kind = kind});
  model->update(all);
  if (!judged->ready() || !model->ready()) {
    throw_user_error("there are too few records to train a model: " + std::to_string(all.size()),
                     {}, "tune for longer, or name more logs");
  }
  print_accuracy(tasks, *judged);
  model->save(path);
  std::cout << "a model of " << all.size() << " records of " << tasks.size()
            << " declarations: " << path << "\n";
}

}  // namespace heddle::cli
