// RecordLog: an append-only file of records, one line of JSON each.
//
//   RecordLog log("dense.jsonl");
//   log.append(record);                       // on disk when it returns
//   ReadResult all = read_records("dense.jsonl");
//
// Several processes may append to one file: each line is one write to a descriptor opened with
// O_APPEND, under an advisory lock. A process may be killed at any byte. Readers skip and report a
// torn last line, and the next writer ends it with a newline, so that no later record is lost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle {

class LineLog;
class LineLogLock;

/// A log of records that several threads and processes may append to.
class RecordLog {
 public:
  /// Opens or creates the file (and its folder); throws a Runtime error that says why not.
  explicit RecordLog(std::string path);
  ~RecordLog();
  RecordLog(const RecordLog&) = delete;
  RecordLog& operator=(const RecordLog&) = delete;

  /// Appends a record, which is on the disk when this returns. Throws a Runtime error where the
  /// disk is full or the file system is gone. A part that was written is removed again where the
  /// system allows it. Threads may share a log. Where the file was replaced meanwhile (`heddle
  /// records prune`), the record goes to the new file.
  void append(const Record& record);
  const std::string& path() const;

 private:
  std::unique_ptr<LineLog> log_;
};

/// Blocks the writers of a log while it exists. Hold it while a log is read and replaced. It does
/// nothing where there is no such file.
class RecordLogLock {
 public:
  explicit RecordLogLock(const std::string& path);
  ~RecordLogLock();
  RecordLogLock(const RecordLogLock&) = delete;
  RecordLogLock& operator=(const RecordLogLock&) = delete;

 private:
  std::unique_ptr<LineLogLock> lock_;
};

/// The contents of a log.
struct ReadResult {
  std::vector<Record> records;
  /// Messages such as "dense.jsonl:17: torn last line skipped" or "dense.jsonl:3: key 'target' is
  /// missing".
  std::vector<std::string> problems;
  /// The unreadable lines that are JSON objects, probably records of a newer Heddle. Code that
  /// rewrites a log keeps them. Torn lines are not included.
  std::vector<std::string> unknown;
};
/// Reads all valid records. Throws a Runtime error for a missing file.
ReadResult read_records(const std::string& path);

/// The text of a log with these records. Write it with `write_file_atomic`.
std::string to_lines(const std::vector<Record>& records);

}  // namespace heddle
