// One line on the terminal that says what is going on; nothing where there is no terminal.
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
  /// Takes the line away, before something else is printed.
  void clear();

 private:
  bool terminal_ = false, shown_ = false;
};

}  // namespace heddle::cli
