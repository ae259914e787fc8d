#include "tune/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <string_view>

#include "common/figures.h"
#include "support/table.h"
#include "tune/node_table.h"

namespace heddle::cli {
namespace {

constexpr double kRedrawSeconds = 0.1;  // seconds between two drawings
constexpr double kQuietSeconds = 10;    // seconds of silence after which a line is printed
constexpr double kNewBestSeconds = 2;   // seconds between lines about new bests
constexpr double kWorthALine = 0.998;   // a time below this share of the best gets a line
constexpr int kBarWidth = 24;

std::string phase_text(const TuneProgress& p, bool stopping) {
  if (stopping) return "stopping...";
  std::string what = p.phase;
  if (p.phase == "static") what = "measuring the static schedule";
  if (p.phase == "search") what = "choosing candidates";
  if (p.phase == "measure") what = "measuring";
  if (p.phase == "train") what = "training the model";
  if (p.phase == "race") what = "racing the leaders";
  if (p.active < 0 || p.active >= static_cast<int>(p.tasks.size()) || p.tasks.size() < 2) {
    return what;
  }
  return what + ": " + p.tasks[static_cast<size_t>(p.active)].name;
}

std::string trials_text(const TuneProgress& p) {
  std::string out = count_text(p.trials, "trial");
  if (p.trials > 0) out += ", " + format_fixed(p.trials_per_second, 1) + "/s";
  return out;
}

std::string bar(double share) {
  const auto full = static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBarWidth));
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "]";
}

std::string overall_text(const Overall& sum) {
  const std::string mark = sum.screened ? "~" : "";
  return format_time(sum.static_seconds) + " -> " + mark + format_time(sum.best_seconds) + ", " +
         mark + ratio(sum.speedup());
}

// The lines below the table: progress, speed, and the current activity.
std::vector<std::string> status_lines(const TuneProgress& p, const Overall& sum, double budget,
                                      bool stopping) {
  std::vector<std::string> lines;
  if (p.tasks.size() > 1 && sum.best_seconds > 0) {
    lines.push_back("  overall static -> best  " + overall_text(sum));
  }
  std::string time = "  " + clock_text(p.elapsed_seconds);
  if (std::isfinite(budget)) {
    time = "  " + bar(p.elapsed_seconds / budget) + " " + clock_text(p.elapsed_seconds) + " of " +
           clock_text(budget) + ", " + clock_text(p.left_seconds) + " left";
  }
  lines.push_back(time + "  " + trials_text(p));
  const char* note = sum.screened ? "  (~: in screening; the race at the end decides)" : "";
  lines.push_back("  " + phase_text(p, stopping) + note);
  constexpr size_t kNodeLines = 10;
  for (std::string& line : node_lines(p.nodes, kNodeLines)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

TerminalSize terminal_size(int descriptor) {
  winsize size = {};
  TerminalSize out;
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    out = {size.ws_col, size.ws_row};
  }
  return out;
}

bool is_live_terminal(int descriptor) {
  const char* kind = std::getenv("TERM");
  return isatty(descriptor) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

TuneDisplay::TuneDisplay(Mode mode, std::ostream& out, std::function<TerminalSize()> size,
                         double budget_seconds, std::vector<TaskScale> scales)
    : mode_(mode),
      out_(out),
      size_(std::move(size)),
      budget_(budget_seconds),
      scales_(std::move(scales)) {}

TuneDisplay::~TuneDisplay() { clear(); }

void TuneDisplay::show(const TuneProgress& progress, bool stopping) {
  // The reaction to a key is shown at once.
  const bool news = stopping && !said_stopping_;
  if (mode_ == Mode::Live) {
    const bool due = last_ < 0 || progress.elapsed_seconds - last_ >= kRedrawSeconds ||
                     progress.phase != last_phase_;
    if (due || news) draw(progress, stopping);
  } else if (mode_ == Mode::Lines) {
    const double silent = progress.elapsed_seconds - std::max(last_, 0.0);
    const double best = overall_of(task_rows(progress, scales_)).best_seconds;
    const bool first = last_best_ == 0 && best > 0;
    const bool better = best > 0 && last_best_ > 0 && best < kWorthALine * last_best_;
    if (first || silent >= kQuietSeconds || (better && silent >= kNewBestSeconds) || news) {
      print_line(progress, stopping);
    }
  }
  said_stopping_ = said_stopping_ || stopping;
}

// Draws the whole picture by one write, so that nothing flickers: the cursor goes up to the first
// line, each line overwrites the old one, and the rest of a longer old picture is cleared.
void TuneDisplay::draw(const TuneProgress& progress, bool stopping) {
  const TerminalSize size = size_();
  const std::vector<TaskRow> rows = task_rows(progress, scales_);
  const std::vector<std::string> status =
      status_lines(progress, overall_of(rows), budget_, stopping);
  // The last column stays free, because a terminal may wrap after it. The last line is left to the
  // cursor.
  const int columns = std::max(size.columns - 1, 1);
  std::vector<std::string> lines =
      table_lines(rows, {columns, size.lines - 1 - static_cast<int>(status.size())});
  lines.insert(lines.end(), status.begin(), status.end());
  if (static_cast<int>(lines.size()) > size.lines - 1) {
    lines.erase(lines.begin(), lines.end() - std::max(size.lines - 1, 1));
  }

  // Where the window became narrower, old lines have wrapped and take more rows.
  size_t up = 0;
  for (const size_t width : drawn_) {
    up += std::max<size_t>(1, (width + static_cast<size_t>(columns)) /
                                  static_cast<size_t>(size.columns > 0 ? size.columns : 1));
  }
  up = std::min(up, static_cast<size_t>(std::max(size.lines - 1, 0)));
  std::string frame = up > 0 ? "\x1b[" + std::to_string(up) + "A\r" : "\r";
  drawn_.clear();
  for (std::string& line : lines) {
    if (line.size() > static_cast<size_t>(columns)) line.resize(static_cast<size_t>(columns));
    drawn_.push_back(line.size());
    frame += line + "\x1b[K\n";
  }
  frame += "\x1b[J";
  out_ << frame << std::flush;
  last_ = progress.elapsed_seconds;
  last_phase_ = progress.phase;
}

void TuneDisplay::clear() {
  if (drawn_.empty()) return;
  out_ << "\x1b[" << drawn_.size() << "A\r\x1b[J" << std::flush;
  drawn_.clear();
}

void TuneDisplay::print_line(const TuneProgress& p, bool stopping) {
  std::string line = "[" + clock_text(p.elapsed_seconds) + "] " + trials_text(p);
  const Overall sum = overall_of(task_rows(p, scales_));
  if (sum.best_seconds > 0) {
    line += sum.screened ? ", static -> best in screening " : ", static -> best ";
    line += overall_text(sum);
  }
  line += ", " + phase_text(p, stopping);
  if (std::isfinite(budget_) && !stopping) line += ", " + clock_text(p.left_seconds) + " left";
  out_ << line << std::endl;
  last_ = p.elapsed_seconds;
  last_best_ = sum.best_seconds;
}

}  // namespace heddle::cli
