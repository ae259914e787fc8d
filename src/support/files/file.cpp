#include "support/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "heddle/support/error.h"

namespace heddle {
namespace {

[[noreturn]] void fail(const char* verb, const std::string& path, int error) {
  throw_runtime_error(std::string("cannot ") + verb + " '" + path + "': " + std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

int write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path, errno);
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path, errno);
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
  }
}

void write_file_atomic(const std::string& path, std::string_view content) {
  struct stat there{};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    // Devices and pipes are written to directly. A rename would replace them by a file.
    const Descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const int error = device.get() < 0 ? errno : write_all(device.get(), content);
    if (error != 0) fail("write", path, error);
    return;
  }
  // The name is unique among the threads and processes that may write the same file now. mkstemp is
  // not used, because it makes private files whatever the umask is.
  static std::atomic<unsigned> counter{0};
  const std::string temporary =
      path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1));
  const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) fail("write", path, errno);
  int error = write_all(file.get(), content);
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail("write", path, error);
  }
}

}  // namespace heddle
