// TuneLog: the record log of a tuning run. A full or missing disk does not stop the run.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "heddle/records/record_log.h"

namespace heddle::search {

class TuneLog {
 public:
  /// Reads the log, then opens it for appending. An empty path keeps nothing. Throws where the log
  /// cannot be opened, before any time is spent.
  explicit TuneLog(const std::string& path);

  const std::vector<Record>& earlier() const { return earlier_; }
  void forget_earlier() { earlier_ = {}; }

  /// Never throws. A record that cannot be written is kept and tried again with the next ones.
  void append(Record record);
  /// Tries again to write, and returns the lines that could not be read and the number of records
  /// that were not written.
  std::vector<std::string> problems();
  /// Records that are not in the file.
  int unwritten() const { return static_cast<int>(unwritten_.size()); }

 private:
  void flush();

  std::string path_;
  std::unique_ptr<RecordLog> log_;
  std::vector<Record> earlier_;
  std::vector<std::string> unreadable_;
  std::deque<Record> unwritten_;
  std::string why_;
};

}  // namespace heddle::search
