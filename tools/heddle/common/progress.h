// A line on the terminal with the current activity. Without a terminal nothing is printed.
#pragma once

#include <string>

namespace heddle::cli {

class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& text);
  /// Removes the line, before other output.
  void clear();

 private:
  bool terminal_ = false, shown_ = false;
};

}  // namespace heddle::cli
