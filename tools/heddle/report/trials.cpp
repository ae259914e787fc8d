// Sections about failures, the accuracy of the model, differences from the static choice, and time.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/figures.h"
#include "heddle/cost_model/cost_model.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

// The table of the most frequent messages.
std::string messages_table(const LogData& data) {
  constexpr size_t kShown = 12, kLetters = 160;
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const Record& r : data.records) {
    if (r.error == MeasureError::None) continue;
    ++counts[{failure_text(r.error), shorten(r.message, kLetters)}];
  }
  std::vector<std::pair<int, std::vector<std::string>>> rows;
  for (const auto& [what, n] : counts) {
    rows.push_back({n, {what.first, what.second, std::to_string(n)}});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::vector<std::string>> shown;
  for (size_t i = 0; i < std::min(kShown, rows.size()); ++i) shown.push_back(rows[i].second);
  std::string out = html_table({"kind", "message", "trials"}, shown, 2);
  if (rows.size() > kShown) {
    out += html_note("and " + count_text(static_cast<int64_t>(rows.size() - kShown), "message") +
                     " that came up less often");
  }
  return out;
}

bool predicted(const LogTrial& t) { return std::isfinite(t.record->predicted) && !t.race; }

struct Window {
  double at;  ///< number of the trial in the middle, over all tasks
  size_t task;
  ModelAccuracy accuracy;
};

// Windows of consecutive trials of one task. Scores compare within a task only, and the model
// changes from round to round; a window is about as long as a round.
std::vector<Window> accuracy_windows(const LogData& data) {
  constexpr size_t kWindow = 32, kLeast = 8;
  std::map<const Record*, double> position;
  for (size_t i = 0; i < data.records.size(); ++i) {
    position[&data.records[i]] = static_cast<double>(i + 1);
  }
  std::vector<Window> windows;
  for (size_t task = 0; task < data.tasks.size(); ++task) {
    std::vector<double> scores, speeds;
    double sum = 0;
    auto close = [&] {
      if (scores.size() >= kLeast) {
        windows.push_back(
            {sum / static_cast<double>(scores.size()), task, evaluate_ranking(scores, speeds)});
      }
      scores.clear();
      speeds.clear();
      sum = 0;
    };
    for (const LogTrial& t : data.tasks[task].trials) {
      if (!predicted(t)) continue;
      scores.push_back(t.record->predicted);
      speeds.push_back(t.record->ok() ? 1 / t.record->median() : 0);
      sum += position[t.record];
      if (scores.size() == kWindow) close();
    }
    close();
  }
  std::sort(windows.begin(), windows.end(),
            [](const Window& a, const Window& b) { return a.at < b.at; });
  return windows;
}

std::string value_text(const Json* value) { return value == nullptr ? "-" : value->dump(); }

}  // namespace

std::string failures_section(const LogData& data) {
  std::vector<BarRow> rows;
  std::map<MeasureError, int> kinds;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    const TaskLog& task = data.tasks[i];
    if (task.failures == 0) continue;
    std::map<MeasureError, int> counts;
    for (const LogTrial& t : task.trials) {
      if (t.record->error != MeasureError::None) ++counts[t.record->error];
    }
    BarLane lane;
    for (const auto& [kind, n] : counts) {
      kinds[kind] += n;
      lane.segments.push_back({static_cast<double>(n), failure_css(kind),
                               failure_text(kind) + ": " + count_text(n, "trial")});
    }
    const auto trials = static_cast<double>(task.trials.size());
    lane.end = std::to_string(task.failures) + " of " + std::to_string(task.trials.size()) + ", " +
               percent(task.failures / trials);
    rows.push_back({numbered(data, i), {std::move(lane)}});
  }
  if (data.records.empty()) return "";
  if (rows.empty()) return html_section("Failures", html_note("No trial failed."));
  std::vector<Key> keys;
  for (const auto& [kind, n] : kinds) {
    keys.push_back(
        {Key::Mark::Block, failure_css(kind), failure_text(kind) + " (" + std::to_string(n) + ")"});
  }
  return html_section("Failures", html_legend(keys) +
                                      bar_chart(rows, "trials that failed", "failures by kind") +
                                      messages_table(data));
}

std::string model_section(const LogData& data) {
  if (data.records.empty()) return "";
  const std::vector<Window> windows = accuracy_windows(data);
  if (windows.empty()) {
    return html_section("Model accuracy",
                        html_note("Not shown: hardly a record says what a model had predicted."));
  }
  Chart chart({"trials of all tasks", 0, static_cast<double>(data.records.size())},
              {"rank correlation (Spearman)", -1, 1}, 900, 280, "model accuracy over time");
  chart.svg().line(chart.left(), chart.y(0), chart.right(), chart.y(0), "static");
  // The mean of the latest few windows.
  constexpr size_t kSmooth = 5;
  std::vector<std::pair<double, double>> mean;
  for (size_t i = 0; i < windows.size(); ++i) {
    double sum = 0;
    const size_t from = i + 1 >= kSmooth ? i + 1 - kSmooth : 0;
    for (size_t k = from; k <= i; ++k) sum += windows[k].accuracy.spearman;
    mean.emplace_back(chart.x(windows[i].at), chart.y(sum / static_cast<double>(i + 1 - from)));
    const Window& w = windows[i];
    chart.svg().circle(chart.x(w.at), chart.y(w.accuracy.spearman), 3, "trial",
                       numbered(data, w.task) + ", " + std::to_string(w.accuracy.samples) +
                           " trials: " + format_fixed(w.accuracy.spearman, 2));
  }
  chart.svg().polyline(mean, "best");

  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    double rank = 0, recall = 0, best = 0;
    int n = 0, samples = 0;
    for (const Window& w : windows) {
      if (w.task != i) continue;
      ++n;
      samples += w.accuracy.samples;
      rank += w.accuracy.spearman;
      recall += w.accuracy.top10_recall;
      best += w.accuracy.best_of_top10;
    }
    if (n == 0) continue;
    rows.push_back({numbered(data, i), std::to_string(samples), format_fixed(rank / n, 2),
                    percent(recall / n), percent(best / n)});
  }
  return html_section(
      "Model accuracy",
      html_legend({{Key::Mark::Dot, "trial", "about a round of one task (32 trials)"},
                   {Key::Mark::Line, "best", "mean of the last five"},
                   {Key::Mark::Line, "static", "chance"}}) +
          "<figure>" + chart.finish() + "</figure>\n" +
          html_table({"task", "trials", "rank correlation", "top-10 recall", "best of its top 10"},
                     rows, 1) +
          html_note("What the model said before the measurement, against the speed that was "
                    "measured; means over rounds. Best of its top 10: the speed of the fastest "
                    "among the ten it liked most, as a share of the fastest of all."));
}

std::string configs_section(const LogData& data) {
  std::string body, stayed;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    const TaskLog& t = data.tasks[i];
    if (t.best == nullptr || t.first == nullptr) continue;
    const std::string heading = "<h3>" + escape_xml(numbered(data, i)) + "</h3>\n";
    if (!t.best->config.is_object() || t.best->config.empty()) {
      body += heading + html_note("An earlier record, replayed: its steps have no knobs.");
      continue;
    }
    std::vector<std::vector<std::string>> rows;
    if (t.first && t.best->alternative != t.first->alternative) {
      const auto shown = [](const std::string& a) { return a.empty() ? "as declared" : a; };
      rows.push_back({"alternative", shown(t.first->alternative), shown(t.best->alternative)});
    }
    for (const auto& [knob, value] : t.best->config.members()) {
      const Json* before = t.first->config.find(knob);
      if (before != nullptr && *before == value) continue;
      rows.push_back({knob, value_text(before), value.dump()});
    }
    for (const auto& [knob, value] : t.first->config.members()) {
      if (!t.best->config.contains(knob)) rows.push_back({knob, value.dump(), "-"});
    }
    const size_t all = t.best->config.members().size();
    if (rows.empty()) {
      stayed += (stayed.empty() ? "" : ", ") + numbered(data, i);
      continue;
    }
    body += heading + html_table({"knob", "static", "best"}, rows, 1) +
            html_note(std::to_string(rows.size()) + " of " +
                      count_text(static_cast<int64_t>(all), "knob") + " differ; " +
                      format_time(t.static_seconds()) + " to " + format_time(t.best_seconds()) +
                      ", " + ratio(t.speedup()) + ".");
  }
  if (!stayed.empty()) body += html_note("The static schedule stayed the best of " + stayed + ".");
  return body.empty() ? "" : html_section("Best configs against static", body);
}

std::string time_section(const LogData& data) {
  if (data.records.empty()) return "";
  std::vector<BarRow> rows;
  double compile_all = 0, measure_all = 0, failed_all = 0, most = 0;
  struct Sums {
    double compile = 0, measure = 0, failed = 0;
  };
  std::vector<Sums> sums(data.tasks.size());
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    Sums& s = sums[i];
    for (const LogTrial& t : data.tasks[i].trials) {
      const Record& r = *t.record;
      if (!r.ok()) {
        s.failed += r.compile_seconds + r.measure_seconds;
        continue;
      }
      s.compile += r.compile_seconds;
      s.measure += r.measure_seconds;
    }
    compile_all += s.compile;
    measure_all += s.measure;
    failed_all += s.failed;
    most = std::max(most, s.compile + s.measure + s.failed);
  }
  if (most <= 0) return "";
  const Unit unit = most < 1 ? time_unit(most) : duration_unit(most);
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    const Sums& s = sums[i];
    const auto n = static_cast<double>(data.tasks[i].trials.size());
    const double total = s.compile + s.measure + s.failed;
    auto segment = [&](double seconds, const char* css, const char* what) {
      return BarSegment{seconds / unit.scale, css, std::string(what) + ": " + format_time(seconds)};
    };
    rows.push_back({numbered(data, i),
                    {{{segment(s.compile, "bar-compile", "compiling"),
                       segment(s.measure, "bar-best", "measuring"),
                       segment(s.failed, "bar-failed", "trials that failed")},
                      format_time(total) + ", " + format_time(total / n) + " a trial"}}});
  }
  auto key = [](const char* css, const char* what, double seconds) {
    return Key{Key::Mark::Block, css, std::string(what) + " (" + format_time(seconds) + ")"};
  };
  return html_section(
      "Where the time went",
      html_legend({key("bar-compile", "compiling", compile_all),
                   key("bar-best", "measuring", measure_all),
                   key("bar-failed", "trials that failed", failed_all)}) +
          bar_chart(rows, "sum over trials, " + unit.name, "where the time went") +
          html_note("Compiling goes on in several processes at a time: the sums may be longer than "
                    "tuning took (" +
                    clock_text(data.seconds) + ")."));
}

}  // namespace heddle::cli
