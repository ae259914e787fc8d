// Output files of commands.
#pragma once

#include <string>

namespace heddle::cli {

/// Throws a User error where no file can be made at `path`, so that the error appears before the
/// measurements and not after them. Nothing is created.
void check_writable(const std::string& path);

/// The path as a word of a command for a shell.
std::string shell_word(const std::string& path);

/// The file's name without its extension as a C identifier: "bert-base.onnx" gives bert_base.
std::string identifier_of(const std::string& path);

/// A log that a command appends to. It is created at once, so that a mistake appears before the
/// measurements, and so that it can be the log of HEDDLE_LOG_FILE too. A log that was created here
/// and is empty at the end is removed.
class LogFile {
 public:
  /// Throws a User error where the log cannot be written.
  explicit LogFile(const std::string& path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

 private:
  std::string path_;
  bool is_new_ = false;
};

}  // namespace heddle::cli
