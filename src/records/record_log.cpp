#include "heddle/records/record_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "heddle/support/error.h"
#include "heddle/support/file.h"

namespace heddle {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw_runtime_error("cannot append to the record log '" + path + "': " + why, {},
                      "name a log on a file system that is writable and has room");
}

int open_log(const std::string& path) {
  // Opened for reading too, because the last byte tells whether the last line is complete.
  const int fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) fail(path, std::strerror(errno));
  return fd;
}

/// An exclusive lock until destroyed. Where the file system has no locks, the record is still
/// written by a single write.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

/// Whether `path` is still the file that is open as `fd`.
bool is_file_of(const std::string& path, int fd) {
  struct stat opened{}, named{};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/// Whether the file ends within a line, because its writer was killed.
bool is_torn(int fd, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

/// "line:1:57: syntax error" -> "column 57: syntax error"
std::string at_column(const std::string& message) {
  constexpr std::string_view kPlace = "line:1:";
  return message.starts_with(kPlace) ? "column " + message.substr(kPlace.size()) : message;
}

/// Called under the lock. False where the file was replaced or removed while waiting for it.
bool append_line(const std::string& path, int fd, std::string line) {
  const FileLock lock(fd);
  if (!is_file_of(path, fd)) return false;
  struct stat before{};
  if (::fstat(fd, &before) != 0) fail(path, std::strerror(errno));
  if (is_torn(fd, before.st_size)) line.insert(0, 1, '\n');

  ssize_t written = -1;
  do {
    written = ::write(fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return true;
  std::string why = written < 0
                        ? std::strerror(errno)
                        : "only " + std::to_string(written) + " of " + std::to_string(line.size()) +
                              " bytes were taken (is the disk full?)";
  // No other process writes while the lock is held, so the bytes past the old end belong to this
  // record.
  if (written > 0 && ::ftruncate(fd, before.st_size) != 0) {
    why += ", and cannot be taken back: " + std::string(std::strerror(errno));
  }
  fail(path, why);
}

}  // namespace

RecordLog::RecordLog(std::string path) : path_(std::move(path)) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) fail(path_, "the folder " + folder.string() + " cannot be made: " + error.message());
  fd_ = open_log(path_);
}

RecordLog::~RecordLog() {
  if (fd_ >= 0) ::close(fd_);
}

// Once write() returns, the kernel has the data, and killing this process loses nothing. Only a
// crash of the machine could. Flushing each record would take milliseconds, which a few lost
// records are not worth.
void RecordLog::append(const Record& record) {
  const std::string line = record.to_json().dump() + "\n";
  const std::lock_guard guard(mutex_);
  while (!append_line(path_, fd_, line)) {
    // Closed only after it is unlocked, because its number may be reused at once.
    const int fd = open_log(path_);
    ::close(fd_);
    fd_ = fd;
  }
}

namespace {

// A message may quote input, which may contain any bytes.
std::string cut(const std::string& message) {
  constexpr std::size_t kMost = 200;
  if (message.size() <= kMost) return message;
  return message.substr(0, kMost) + "... (" + std::to_string(message.size() - kMost) +
         " more bytes)";
}

}  // namespace

RecordLogLock::RecordLogLock(const std::string& path) {
  for (;;) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
    // The previous holder of the lock may have replaced the file.
    if (fd_ < 0 || is_file_of(path, fd_)) return;
    ::close(fd_);
  }
}

RecordLogLock::~RecordLogLock() {
  if (fd_ >= 0) ::close(fd_);  // which releases the lock
}

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
      // A last line that only lacks its newline is a valid record.
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
