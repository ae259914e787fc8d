#include "measure/cuda/gpu_turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"

namespace heddle::measuring {
namespace {

constexpr mode_t kAllMayUse = 0666;
// A turn takes some ten milliseconds, so waiting processes look for its end this often.
constexpr std::chrono::microseconds kGlance{300};
constexpr double kReportSeconds = 1;

}  // namespace

GpuTurn::GpuTurn(const std::string& path, const std::function<void()>& waiting) {
  if (path.empty()) return;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kAllMayUse);
  if (fd_ < 0) {
    throw_user_error("cannot open '" + path +
                         "', by which processes take turns on a GPU: " + std::strerror(errno),
                     {}, "name a file in a folder that all of them may write to");
  }
  Timer since;
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;  // this file system has no locks
    std::this_thread::sleep_for(kGlance);
    if (since.elapsed_s() < kReportSeconds) continue;
    waiting();
    since = Timer();
  }
}

GpuTurn::~GpuTurn() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace heddle::measuring
