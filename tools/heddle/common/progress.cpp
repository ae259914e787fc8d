#include "common/progress.h"

#include <unistd.h>

#include <cstdio>

namespace heddle::cli {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(const std::string& text) {
  if (!terminal_) return;
  // A line that wraps could not be removed again.
  std::fprintf(stderr, "\r\x1b[K%.100s", text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::show_or_log(const std::string& text) {
  constexpr std::chrono::seconds kBetweenLines{30};
  if (terminal_) return show(text);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_line_) return;
  next_line_ = now + kBetweenLines;
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Progress::clear() {
  if (!shown_) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace heddle::cli
