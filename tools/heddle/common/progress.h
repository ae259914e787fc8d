// A line on the terminal with the current activity. Without a terminal nothing is printed.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace heddle::cli {

class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& text);
  /// The same on a terminal; elsewhere a line of its own on standard error, now and then.
  void show_or_log(const std::string& text);
  /// Removes the line, before other output.
  void clear();

 private:
  bool terminal_ = false, shown_ = false;
  std::chrono::steady_clock::time_point next_line_ = {};
};

/// A function that shows the lines of `line_of`; an empty one where nothing is to be shown.
template <class State>
std::function<void(const State&)> shown_by(Progress& progress, bool quiet,
                                           std::string (*line_of)(const State&)) {
  if (quiet) return {};
  return [&progress, line_of](const State& state) { progress.show_or_log(line_of(state)); };
}

}  // namespace heddle::cli
