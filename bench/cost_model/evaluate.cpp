// Held-out accuracy for each task: how well a model orders configs that it has not seen.
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include "bench.h"
#include "heddle/cost_model/cost_model.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "support/hash.h"
#include "support/table.h"

namespace heddle::bench {
namespace {

struct Row {
  std::string task;
  TrainingRow row;
};

std::vector<Row> rows_of(const std::string& path) {
  const Target target = bench_target();
  std::map<std::string, Task> tasks;
  for (Task& t : bench_tasks(target)) tasks.emplace(t.name, t);
  std::vector<Row> out;
  for (const Sample& s : read_samples(path)) {
    auto it = tasks.find(s.task);
    if (it == tasks.end() || !it->second.tmpl.why_invalid(s.config).empty()) continue;
    Row r;
    r.task = s.task;
    r.row.task = hash_string(s.task);
    r.row.throughput = 1 / s.seconds;
    r.row.features = schedule_features(it->second.tmpl.instantiate(s.config), it->second.args);
    out.push_back(std::move(r));
  }
  return out;
}

XgboostOptions options_of(const std::vector<std::string>& settings) {
  XgboostOptions o;
  for (const std::string& s : settings) {
    size_t eq = s.find('=');
    std::string name = s.substr(0, eq), value = eq == std::string::npos ? "" : s.substr(eq + 1);
    if (name == "rounds")
      o.rounds = std::stoi(value);
    else if (name == "depth")
      o.max_depth = std::stoi(value);
    else if (name == "eta")
      o.eta = std::stod(value);
    else if (name == "objective")
      o.objective = value;
    else if (name == "child")
      o.min_child_weight = std::stod(value);
    else if (name == "columns")
      o.columns_share = std::stod(value);
    else if (name == "rows")
      o.rows_share = std::stod(value);
    else if (name == "bins")
      o.bins = std::stoi(value);
  }
  return o;
}

struct Sum {
  ModelAccuracy total;
  int n = 0;
  void add(const ModelAccuracy& a) {
    total.spearman += a.spearman;
    total.top10_recall += a.top10_recall;
    total.best_of_top10 += a.best_of_top10;
    total.samples += a.samples;
    ++n;
  }
  std::vector<std::string> cells() const {
    double d = n ? n : 1;
    return {format_fixed(total.spearman / d, 3), format_fixed(total.top10_recall / d, 2),
            format_fixed(total.best_of_top10 / d, 3)};
  }
};

/// Sets the columns whose names contain `part` to zero, to show what they contribute.
void leave_out(std::vector<Row>* rows, const std::string& part) {
  const auto& columns = feature_columns();
  int n = 0;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].name.find(part) == std::string::npos) continue;
    ++n;
    for (Row& r : *rows) r.row.features[c] = 0;
  }
  std::printf("without %d columns '%s'\n", n, part.c_str());
}

void fit_time(const std::vector<Row>& rows, const XgboostOptions& options) {
  for (size_t n : {size_t{64}, size_t{500}, rows.size()}) {
    std::vector<TrainingRow> known;
    std::vector<Features> features;
    for (size_t i = 0; i < n && i < rows.size(); ++i) {
      known.push_back(rows[i * rows.size() / n].row);
      features.push_back(known.back().features);
    }
    std::unique_ptr<CostModel> model = make_xgboost_model(options);
    double begin = processor_time();
    model->update(known);
    double fitted = processor_time();
    model->predict(0, features);
    std::printf("%5zu rows of %zu columns: fit %.0f ms, prediction %.1f us a row\n", n,
                feature_columns().size(), 1e3 * (fitted - begin),
                1e6 * (processor_time() - fitted) / static_cast<double>(n));
  }
}

using Accuracies = std::map<std::string, ModelAccuracy>;  // keyed by task
using Sums = std::map<std::string, Sum>;

struct Data {
  std::vector<Row> rows;
  std::map<std::string, std::vector<size_t>> by_task;  // the rows of each task
};

// How well a model that has seen the rows `train` orders the rows `test`.
Accuracies score(const Data& data, const std::vector<size_t>& train,
                 const std::vector<size_t>& test, XgboostOptions options, uint64_t seed) {
  options.seed = seed;
  std::unique_ptr<CostModel> model = make_xgboost_model(options);
  std::vector<TrainingRow> known;
  for (size_t i : train) known.push_back(data.rows[i].row);
  model->update(known);
  std::map<std::string, std::pair<std::vector<Features>, std::vector<double>>> asked;
  for (size_t i : test) {
    asked[data.rows[i].task].first.push_back(data.rows[i].row.features);
    asked[data.rows[i].task].second.push_back(data.rows[i].row.throughput);
  }
  Accuracies out;
  for (auto& [task, x] : asked) {
    out[task] = evaluate_ranking(model->predict(hash_string(task), x.first), x.second);
  }
  return out;
}

void add(Sums& sums, const Accuracies& accuracies) {
  for (const auto& [task, a] : accuracies) sums[task].add(a);
}

struct Answers {
  Sums mixed;   // rows of every task are known: half of them, at random
  Sums few;     // only 64 rows of the task itself are known
  Sums unseen;  // the task is new
};

// Trains on random halves, three times. Shuffles the rows of each task.
void score_known_tasks(Data& data, const XgboostOptions& options, Answers& answers) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Rng rng(seed);
    std::vector<size_t> train, test;
    for (auto& [task, list] : data.by_task) {
      rng.shuffle(list);
      for (size_t i = 0; i < list.size(); ++i) (i % 2 ? train : test).push_back(list[i]);
    }
    add(answers.mixed, score(data, train, test, options, seed));
    for (const auto& [task, list] : data.by_task) {
      if (list.size() < 100) continue;
      const std::vector<size_t> own(list.begin(), list.begin() + 64);
      const std::vector<size_t> rest(list.begin() + 64, list.end());
      add(answers.few, score(data, own, rest, options, seed));
    }
  }
}

void score_new_tasks(const Data& data, const XgboostOptions& options, Answers& answers) {
  for (const auto& [task, list] : data.by_task) {
    std::vector<size_t> others;
    for (size_t i = 0; i < data.rows.size(); ++i) {
      if (data.rows[i].task != task) others.push_back(i);
    }
    add(answers.unseen, score(data, others, list, options, 1));
  }
}

// Each task counts once.
void add_mean(Sum& into, const Sum& s) {
  if (s.n == 0) return;
  ModelAccuracy a = s.total;
  a.spearman /= s.n;
  a.top10_recall /= s.n;
  a.best_of_top10 /= s.n;
  into.add(a);
}

void print(const Data& data, Answers& answers) {
  Table table({"task", "rows", "half known: rho", "top-10", "best", "64 own rows: rho", "top-10",
               "best", "task unseen: rho", "top-10", "best"});
  auto row = [&](const std::string& name, size_t n, const std::array<Sum, 3>& sums) {
    std::vector<std::string> cells{name, std::to_string(n)};
    for (const Sum& s : sums) {
      for (const std::string& x : s.cells()) cells.push_back(s.n ? x : "");
    }
    table.add_row(cells);
  };
  std::array<Sum, 3> means;
  for (const auto& [task, list] : data.by_task) {
    const std::array<Sum, 3> sums{answers.mixed[task], answers.few[task], answers.unseen[task]};
    row(task, list.size(), sums);
    if (list.size() < 50) continue;  // too few to say anything
    for (size_t i = 0; i < sums.size(); ++i) add_mean(means[i], sums[i]);
  }
  table.add_rule();
  row("mean", data.rows.size(), means);
  std::printf("%s", table.to_string().c_str());
}

}  // namespace

int evaluate(const std::string& path, const std::vector<std::string>& settings) {
  Data data;
  data.rows = rows_of(path);
  const XgboostOptions options = options_of(settings);
  for (const std::string& s : settings) {
    if (s.rfind("without=", 0) == 0) leave_out(&data.rows, s.substr(8));
  }
  for (size_t i = 0; i < data.rows.size(); ++i) data.by_task[data.rows[i].task].push_back(i);
  Answers answers;
  score_known_tasks(data, options, answers);
  fit_time(data.rows, options);
  score_new_tasks(data, options, answers);
  print(data, answers);
  return 0;
}

}  // namespace heddle::bench
