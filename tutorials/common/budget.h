// What the lessons about tuning share: how long they may take, and where they keep their records.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace heddle::tutorials {

/// Seconds to tune for: the first argument, or the environment's HEDDLE_TUTORIAL_SECONDS, or
/// `otherwise`.
inline double tuning_seconds(int argc, char** argv, double otherwise) {
  const char* environment = std::getenv("HEDDLE_TUTORIAL_SECONDS");
  const char* text = argc > 1 ? argv[1] : environment;
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds > 0 && seconds <= 86400)) {
    throw std::runtime_error("'" + std::string(text) +
                             "' is no number of seconds to tune for, such as 10 or 2.5");
  }
  return seconds;
}

/// A file of this process alone, gone when the lesson ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("heddle-" + std::to_string(getpid()) + "-" + name)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace heddle::tutorials
