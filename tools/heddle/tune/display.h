// The output of a running tuning: a table on a terminal, lines in a log file.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "tune/task_rows.h"

namespace heddle::cli {

/// The current size of the terminal.
struct TerminalSize {
  int columns = 80, lines = 24;
};
/// The size of the terminal behind a descriptor, or the default where it is not known.
TerminalSize terminal_size(int descriptor);
/// Whether the descriptor is a terminal on which lines can be overwritten.
bool is_live_terminal(int descriptor);

class TuneDisplay {
 public:
  enum class Mode : uint8_t {
    Live,   ///< a table that is redrawn in place
    Lines,  ///< a line at a new best or every ten seconds
    Quiet,  ///< nothing
  };
  /// `budget_seconds` is the budget of the whole run. `scales` has one entry for each task.
  TuneDisplay(Mode mode, std::ostream& out, std::function<TerminalSize()> size,
              double budget_seconds, std::vector<TaskScale> scales);
  ~TuneDisplay();
  TuneDisplay(const TuneDisplay&) = delete;
  TuneDisplay& operator=(const TuneDisplay&) = delete;

  /// May be called at any rate; it draws when enough has changed. `stopping` says that Ctrl-C was
  /// pressed.
  void show(const TuneProgress& progress, bool stopping);
  /// Removes the table, before other output.
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
