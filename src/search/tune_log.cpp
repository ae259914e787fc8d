#include "search/tune_log.h"

#include <exception>
#include <filesystem>

#include "heddle/support/error.h"

namespace heddle::search {
namespace {

// Up to this number of unwritten records, each new record retries them. Beyond it every 64th does,
// because retries would slow down a long run with a full disk.
constexpr size_t kRetries = 4;

}  // namespace

TuneLog::TuneLog(const std::string& path) : path_(path) {
  if (path.empty()) return;
  std::error_code none;
  if (std::filesystem::is_regular_file(path, none)) {  // pipes and devices are only written to
    ReadResult read = read_records(path);
    earlier_ = std::move(read.records);
    unreadable_ = std::move(read.problems);
  }
  log_ = std::make_unique<RecordLog>(path);
}

void TuneLog::flush() {
  try {
    for (; !unwritten_.empty(); unwritten_.pop_front()) log_->append(unwritten_.front());
  } catch (const Error& e) {
    why_ = e.message;
  } catch (const std::exception& e) {
    why_ = e.what();
  }
}

void TuneLog::append(Record record) {
  if (!log_) return;
  unwritten_.push_back(std::move(record));
  if (unwritten_.size() <= kRetries || unwritten_.size() % 64 == 0) flush();
}

std::vector<std::string> TuneLog::problems() {
  if (log_) flush();
  std::vector<std::string> out = unreadable_;
  if (!unwritten_.empty()) {
    out.push_back(std::to_string(unwritten_.size()) + " records could not be written to " + path_ +
                  ": " + why_);
  }
  return out;
}

}  // namespace heddle::search
