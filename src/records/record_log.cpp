#include "heddle/records/record_log.h"

#include <string_view>

#include "heddle/support/error.h"
#include "support/files/file.h"
#include "support/files/line_log.h"

namespace heddle {
namespace {

/// "line:1:57: syntax error" -> "column 57: syntax error"
std::string at_column(const std::string& message) {
  constexpr std::string_view kPlace = "line:1:";
  return message.starts_with(kPlace) ? "column " + message.substr(kPlace.size()) : message;
}

// A message may quote input, and input may contain any bytes.
std::string cut(const std::string& message) {
  constexpr std::size_t kMost = 200;
  if (message.size() <= kMost) return message;
  return message.substr(0, kMost) + "... (" + std::to_string(message.size() - kMost) +
         " more bytes)";
}

}  // namespace

RecordLog::RecordLog(std::string path)
    : log_(std::make_unique<LineLog>(std::move(path), "record log")) {}
RecordLog::~RecordLog() = default;

void RecordLog::append(const Record& record) { log_->append(record.to_json().dump()); }
const std::string& RecordLog::path() const { return log_->path(); }

RecordLogLock::RecordLogLock(const std::string& path)
    : lock_(std::make_unique<LineLogLock>(path)) {}
RecordLogLock::~RecordLogLock() = default;

ReadResult read_records(const std::string& path) {
  const std::string content = read_file(path);
  ReadResult result;
  int number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    ++number;
    const std::size_t newline = content.find('\n', begin);
    const bool whole = newline != std::string::npos;
    const std::size_t end = whole ? newline : content.size();
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string at = path + ":" + std::to_string(number);
    Json json;
    try {
      // A last line without a newline is a valid record if it is complete.
      json = Json::parse(line, "line");
      Record record = Record::from_json(json);
      record.origin = at;
      result.records.push_back(std::move(record));
    } catch (const Error& e) {
      const bool torn = !whole && !json.is_object();
      result.problems.push_back(at + ": " +
                                (torn ? "torn last line skipped" : cut(at_column(e.message))));
      if (json.is_object()) result.unknown.emplace_back(line);
    }
  }
  return result;
}

std::string to_lines(const std::vector<Record>& records) {
  std::string lines;
  for (const Record& r : records) lines += r.to_json().dump() + "\n";
  return lines;
}

}  // namespace heddle
