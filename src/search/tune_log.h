// TuneLog: the record log of a tuning run. A disk that is full or gone does not stop the run.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "heddle/records/record_log.h"

namespace heddle {

class TuneLog {
 public:
  /// Reads what is there, then opens for appending; an empty path keeps nothing. Throws where the
  /// log cannot be opened: better now than after an hour.
  explicit TuneLog(const std::string& path);

  const std::vector<Record>& earlier() const { return earlier_; }
  void forget_earlier() { earlier_ = {}; }

  /// Never throws. A record that cannot be written is kept and tried again with the next ones.
  void append(Record record);
  /// Tries once more; then lines that could not be read, and how many records were not written.
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

}  // namespace heddle
