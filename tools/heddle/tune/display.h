// What a terminal shows while tuning goes on; what a log file gets instead.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "tune/task_rows.h"

namespace heddle::cli {

/// How large the terminal is at this moment.
struct TerminalSize {
  int columns = 80, lines = 24;
};
/// Of the terminal behind a descriptor; the default where it does not say.
TerminalSize terminal_size(int descriptor);
/// A terminal on which lines can be drawn over.
bool is_live_terminal(int descriptor);

class TuneDisplay {
 public:
  enum class Mode : uint8_t {
    Live,   ///< a table that is redrawn in place
    Lines,  ///< a line at a new best or every ten seconds
    Quiet,  ///< nothing
  };
  /// `budget_seconds`: of the whole run; `scales`: one a task.
  TuneDisplay(Mode mode, std::ostream& out, std::function<TerminalSize()> size,
              double budget_seconds, std::vector<TaskScale> scales);
  ~TuneDisplay();
  TuneDisplay(const TuneDisplay&) = delete;
  TuneDisplay& operator=(const TuneDisplay&) = delete;

  /// Called as often as one likes; draws when it is worth it. `stopping`: Ctrl-C was pressed.
  void show(const TuneProgress& progress, bool stopping);
  /// Takes the table away, before something else is printed.
  void clear();

 private:
  void draw(const TuneProgress& progress, bool stopping);
  void print_line(const TuneProgress& progress, bool stopping);

  Mode mode_;
  std::ostream& out_;
  std::function<TerminalSize()> size_;
  double budget_;
  std::vector<TaskScale> scales_;

  std::vector<size_t> drawn_;  ///< widths of the lines on the screen
  double last_ = -1;           ///< elapsed seconds at the last drawing; -1: none yet
  double last_best_ = 0;       ///< overall, at the last line
  std::string last_phase_;
  bool said_stopping_ = false;
};

}  // namespace heddle::cli
