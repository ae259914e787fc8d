#include "measure/process/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>

#include "measure/process/process.h"

namespace heddle::measuring {
namespace {

// Bytes that a worker may print. Further output is lost.
constexpr rlim_t kNoiseBytes = 1 << 20;

// Bytes of writable private memory in use, which RLIMIT_DATA limits.
int64_t data_bytes() {
  int64_t kilobytes = 0;
  if (std::FILE* file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file)) {
      long long value = 0;
      if (std::sscanf(line, "VmData: %lld kB", &value) == 1) kilobytes = value;
    }
    std::fclose(file);
  }
  return kilobytes << 10;
}

void limit(int resource, rlim_t value) {
  rlimit r{};
  if (::getrlimit(static_cast<decltype(RLIMIT_CORE)>(resource), &r) != 0) return;
  r.rlim_cur = r.rlim_max == RLIM_INFINITY ? value : std::min(value, r.rlim_max);
  ::setrlimit(static_cast<decltype(RLIMIT_CORE)>(resource), &r);
}

}  // namespace

void die_with_parent(pid_t parent) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(0);  // the parent died meanwhile
}

void close_from(int first) {
#ifdef __linux__
  if (::close_range(static_cast<unsigned>(first), ~0U, 0) == 0) return;
#endif
  const long most = ::sysconf(_SC_OPEN_MAX);
  for (int fd = first; fd < (most > 0 ? most : 1024); ++fd) ::close(fd);
}

void ignore_interrupts() {
  ::signal(SIGINT, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void limit_resources(int64_t memory_bytes) {
  limit(RLIMIT_CORE, 0);
  // Limits the output. Beyond the limit writing fails without a signal.
  limit(RLIMIT_FSIZE, kNoiseBytes);
  ::signal(SIGXFSZ, SIG_IGN);
  // RLIMIT_AS is not used, because it counts reserved memory: 64 MiB for every thread that
  // allocates.
  if (memory_bytes > 0) {
    limit(RLIMIT_DATA, static_cast<rlim_t>(data_bytes() + memory_bytes));
  }
  // LLVM and much other code abort when memory is exhausted. This handler ends the process with a
  // status that names the cause.
  std::set_new_handler([] { ::_exit(kExitOutOfMemory); });
  // If the whole machine runs out of memory, the system should kill a worker first.
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    [[maybe_unused]] const ssize_t written = ::write(fd, "900", 3);
    ::close(fd);
  }
}

void allow_more_memory(int64_t bytes) {
  rlimit r{};
  if (::getrlimit(RLIMIT_DATA, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return;
  limit(RLIMIT_DATA, static_cast<rlim_t>(static_cast<int64_t>(r.rlim_cur) + bytes));
}

// Memory that one compilation frees is kept for the next one and not returned to the system (7 % of
// the time to compile a matmul was spent on page faults). It still counts as memory of the worker.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  ::mallopt(M_TOP_PAD, 16 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // arrays are mapped as in other processes
#endif
}

}  // namespace heddle::measuring
