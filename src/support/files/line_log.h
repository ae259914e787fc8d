// LineLog: an append-only file of lines, which several processes may write.
//
// Each line is one write to a descriptor opened with O_APPEND, under an advisory lock. A process
// may be killed at any byte. The next writer ends an incomplete last line with a newline, so that
// no later line is lost.
#pragma once

#include <mutex>
#include <string>

namespace heddle {

class LineLog {
 public:
  /// Opens or creates the file (and its folder); throws a Runtime error that says why not. `what`
  /// is the kind of log, for messages: "record log".
  LineLog(std::string path, std::string what);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  /// Appends `line`, which has no newline. Throws a Runtime error where the disk is full or the
  /// file system is not available. A part that was written is removed again where the system allows
  /// it. Threads may share a log. Where the file was replaced meanwhile, the line goes to the new
  /// file.
  void append(const std::string& line);
  /// The same where the file is empty; else nothing is written, and false is returned.
  bool append_first(const std::string& line);
  const std::string& path() const { return path_; }

 private:
  bool append(const std::string& line, bool only_first);
  [[noreturn]] void fail(const std::string& why) const;
  int open() const;

  std::string path_, what_;
  std::mutex mutex_;
  int fd_ = -1;
};

/// Blocks the writers of a log while it exists. Hold it while reading a log and replacing it. It
/// does nothing where there is no such file.
class LineLogLock {
 public:
  explicit LineLogLock(const std::string& path);
  ~LineLogLock();
  LineLogLock(const LineLogLock&) = delete;
  LineLogLock& operator=(const LineLogLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace heddle
