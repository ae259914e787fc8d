// RecordLog: an append-only file of records, one line of JSON each.
//
//   RecordLog log("dense.jsonl");
//   log.append(record);                       // on disk when it returns
//   ReadResult all = read_records("dense.jsonl");
//
// Several processes may append to one file: each line is one write to a descriptor opened with
// O_APPEND, under an advisory lock. A process may be killed at any byte: a torn last line is
// skipped by readers, reported, and closed off by the next writer, so that no later record is lost.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle {

class RecordLog {
 public:
  /// Opens or creates the file (and its folder); throws a Runtime error that says why not.
  explicit RecordLog(std::string path);
  ~RecordLog();
  RecordLog(const RecordLog&) = delete;
  RecordLog& operator=(const RecordLog&) = delete;

  /// Throws a Runtime error (disk full, file system gone); then nothing of the record is in the
  /// file, as far as the system lets us: what was written in part is truncated away.
  /// Threads may share a log. Where the file was replaced meanwhile (`heddle records prune`), the
  /// record goes to the new one.
  void append(const Record& record);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::mutex mutex_;
  int fd_ = -1;
};

/// Holds the writers of a log off while it lives: for whoever reads a log and then replaces it.
/// Does nothing where there is no such file.
class RecordLogLock {
 public:
  explicit RecordLogLock(const std::string& path);
  ~RecordLogLock();
  RecordLogLock(const RecordLogLock&) = delete;
  RecordLogLock& operator=(const RecordLogLock&) = delete;

 private:
  int fd_ = -1;
};

struct ReadResult {
  std::vector<Record> records;
  /// "dense.jsonl:17: torn last line skipped", "dense.jsonl:3: key 'target' is missing"
  std::vector<std::string> problems;
  /// Those lines among the problems that are JSON objects, as they are: records of a newer Heddle,
  /// most likely. Who rewrites a log keeps them; what is no JSON (torn) is of use to nobody.
  std::vector<std::string> unknown;
};
/// Reads what can be read. A missing file is a Runtime error.
ReadResult read_records(const std::string& path);

/// The lines of a log with these records. Write them with `write_file_atomic`.
std::string to_lines(const std::vector<Record>& records);

}  // namespace heddle
