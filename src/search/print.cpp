#include "heddle/search/print.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string_view>

#include "support/environment.h"
#include "support/table.h"

namespace heddle {
namespace {

constexpr double kRedrawSeconds = 0.2;  // seconds between updates of a line
constexpr double kSilentSeconds = 10;   // seconds between lines without an improvement
constexpr double kWorthALine = 0.998;   // a time below this share of the best gets a line

std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  const std::string rest = std::to_string(whole % 60);
  if (whole < 60) return rest + " s";
  return std::to_string(whole / 60) + ":" + (rest.size() < 2 ? "0" : "") + rest;
}

std::string ratio(double before, double after) { return format_fixed(before / after, 2) + "x"; }

/// "1:05  312 trials, 10.2/s  static 41.2 us, best 38.0 us (1.08x)  measure: dense  0:55 left"
std::string line_of(const TuneProgress& p) {
  std::string line = clock_text(p.elapsed_seconds) + "  " + std::to_string(p.trials) + " trials";
  if (p.trials > 0) line += ", " + format_fixed(p.trials_per_second, 1) + "/s";
  if (p.static_seconds > 0 && p.best_seconds > 0) {
    line += "  static " + format_time(p.static_seconds) + ", best " + format_time(p.best_seconds) +
            " (" + ratio(p.static_seconds, p.best_seconds) + ")";
  }
  line += "  " + p.phase;
  if (p.tasks.size() > 1 && p.active >= 0 && p.active < static_cast<int>(p.tasks.size())) {
    line += ": " + p.tasks[static_cast<size_t>(p.active)].name;
  }
  if (std::isfinite(p.left_seconds)) line += "  " + clock_text(p.left_seconds) + " left";
  return line;
}

/// Prints progress line by line.
class Lines {
 public:
  explicit Lines(std::ostream* out) : out_(out) {}

  void show(const TuneProgress& p) {
    const bool done = p.phase == "done";
    const bool better = p.best_seconds > 0 && (best_ == 0 || p.best_seconds < kWorthALine * best_);
    if (!done && !better && p.elapsed_seconds - last_ < kSilentSeconds) return;
    best_ = better ? p.best_seconds : best_;
    last_ = p.elapsed_seconds;
    *out_ << line_of(p) << std::endl;
  }

 private:
  std::ostream* out_;
  double last_ = 0, best_ = 0;
};

/// Prints progress in one line of a terminal that is overwritten.
class LiveLine {
 public:
  void show(const TuneProgress& p) {
    const bool done = p.phase == "done";
    if (!done && last_ >= 0 && p.elapsed_seconds - last_ < kRedrawSeconds) return;
    last_ = p.elapsed_seconds;
    // A line that wraps could not be overwritten.
    std::cerr << "\r\x1b[K" << (done ? "" : line_of(p).substr(0, 79)) << std::flush;
  }

 private:
  double last_ = -1;
};

template <class Printer>
std::function<void(const TuneProgress&)> shared(Printer printer) {
  const auto state = std::make_shared<Printer>(std::move(printer));
  return [state](const TuneProgress& p) { state->show(p); };
}

void print_task(std::ostream& out, const TaskResult& t) {
  if (t.improved) {
    out << t.name << ": " << format_time(t.best_seconds) << ", "
        << ratio(t.static_seconds, t.best_seconds) << " as fast as the static choice ("
        << format_time(t.static_seconds) << ")";
  } else {
    out << t.name << ": the static choice";
    if (t.static_seconds > 0) out << ", " << format_time(t.static_seconds);
  }
  out << "; " << t.trials << (t.trials == 1 ? " trial" : " trials");
  if (t.failures > 0) out << ", " << t.failures << " failed";
  out << "\n";
}

void print_end(std::ostream& out, const TuneReport& report) {
  out << report.trials << (report.trials == 1 ? " trial" : " trials") << " in "
      << clock_text(report.elapsed_seconds);
  if (report.ended != TuneEnd::None) out << ", ended by: " << to_string(report.ended);
  if (!report.log.empty()) out << "; records in " << report.log;
  out << "\n";
  for (const std::string& remark : report.remarks) out << "measured: " << remark << "\n";
  for (const std::string& problem : report.problems) out << "problem: " << problem << "\n";
}

}  // namespace

const char* to_string(RaceResult result) {
  switch (result) {
    case RaceResult::NoTime: return "no time";
    case RaceResult::NothingToRace: return "nothing to race";
    case RaceResult::NotRaced: return "no race";
    case RaceResult::NotProven: return "not proven";
    case RaceResult::Faster: return "faster";
    case RaceResult::AnswersDiffer: return "answers differ";
  }
  return "";
}

const char* to_string(TuneEnd end) {
  switch (end) {
    case TuneEnd::None: return "";
    case TuneEnd::Budget: return "budget";
    case TuneEnd::Trials: return "trials";
    case TuneEnd::Converged: return "converged";
    case TuneEnd::Near: return "near";
    case TuneEnd::Cancelled: return "cancelled";
    case TuneEnd::Failed: return "failed";
  }
  return "";
}

std::function<void(const TuneProgress&)> print_progress() {
  const std::string kind = internal::environment_value("TERM");
  const bool live = isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb";
  return live ? shared(LiveLine()) : print_progress(std::cerr);
}

std::function<void(const TuneProgress&)> print_progress(std::ostream& out) {
  return shared(Lines(&out));
}

std::ostream& operator<<(std::ostream& out, const TuneReport& report) {
  Table table({"task", "trials", "failed", "static", "best", "speed-up"});
  const auto time = [](double seconds) { return seconds > 0 ? format_time(seconds) : "-"; };
  for (const TaskResult& t : report.tasks) {
    const bool both = t.static_seconds > 0 && t.best_seconds > 0;
    table.add_row({t.name, std::to_string(t.trials), std::to_string(t.failures),
                   time(t.static_seconds), time(t.best_seconds),
                   both ? ratio(t.static_seconds, t.best_seconds) : "-"});
  }
  out << table.to_string();
  print_end(out, report);
  return out;
}

std::ostream& operator<<(std::ostream& out, const TuneResult& result) {
  print_task(out, result);
  print_end(out, result.report);
  return out;
}

}  // namespace heddle
