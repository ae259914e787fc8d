#include "support/files/line_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "heddle/support/error.h"

namespace heddle {
namespace {

/// An exclusive lock until destroyed. Where the file system has no locks, the line is still written
/// by a single write.
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

/// Writes `line` after the existing `size` bytes. Returns an empty text, or why it failed.
std::string write_line(int fd, off_t size, const std::string& line) {
  ssize_t written = -1;
  do {
    written = ::write(fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return "";
  std::string why = written < 0
                        ? std::strerror(errno)
                        : "only " + std::to_string(written) + " of " + std::to_string(line.size()) +
                              " bytes were taken (is the disk full?)";
  // No other process writes while the lock is held, so the bytes past the old end belong to this
  // line.
  if (written > 0 && ::ftruncate(fd, size) != 0) {
    why += ", and cannot be taken back: " + std::string(std::strerror(errno));
  }
  return why;
}

}  // namespace

void LineLog::fail(const std::string& why) const {
  throw_runtime_error("cannot append to the " + what_ + " '" + path_ + "': " + why, {},
                      "name a log on a file system that is writable and has room");
}

int LineLog::open() const {
  // The file is opened for reading too, because the last byte tells whether the last line is
  // complete.
  const int fd = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) fail(std::strerror(errno));
  return fd;
}

LineLog::LineLog(std::string path, std::string what)
    : path_(std::move(path)), what_(std::move(what)) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) fail("the folder " + folder.string() + " cannot be made: " + error.message());
  fd_ = open();
}

LineLog::~LineLog() {
  if (fd_ >= 0) ::close(fd_);
}

void LineLog::append(const std::string& line) { append(line, false); }
bool LineLog::append_first(const std::string& line) { return append(line, true); }

// Once write() returns, the kernel has the data, and killing this process loses nothing. Only a
// crash of the machine could. Flushing each line would take milliseconds, which a few lost lines
// are not worth.
bool LineLog::append(const std::string& line, bool only_first) {
  const std::lock_guard guard(mutex_);
  for (;;) {
    {
      const FileLock lock(fd_);
      struct stat before{};
      if (is_file_of(path_, fd_)) {
        if (::fstat(fd_, &before) != 0) fail(std::strerror(errno));
        if (only_first && before.st_size > 0) return false;
        const std::string why = write_line(
            fd_, before.st_size, (is_torn(fd_, before.st_size) ? "\n" : "") + line + "\n");
        if (!why.empty()) fail(why);
        return true;
      }
    }
    // The file was replaced or removed while waiting for the lock. The old one is closed only after
    // it is unlocked, because its number may be reused at once.
    const int fd = open();
    ::close(fd_);
    fd_ = fd;
  }
}

LineLogLock::LineLogLock(const std::string& path) {
  for (;;) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
    // The previous holder of the lock may have replaced the file.
    if (fd_ < 0 || is_file_of(path, fd_)) return;
    ::close(fd_);
  }
}

LineLogLock::~LineLogLock() {
  if (fd_ >= 0) ::close(fd_);  // which releases the lock
}

}  // namespace heddle
