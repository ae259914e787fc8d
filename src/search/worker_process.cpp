#include "search/worker_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "heddle/support/error.h"

namespace heddle::search {
namespace {

// The worker's end of the channel; everything above is closed.
constexpr int kChannelFd = 3;
// What a worker may print before the rest is lost.
constexpr rlim_t kNoiseBytes = 1 << 20;
// No status that waitpid() gives.
constexpr int kUnknownStatus = -1;

std::string signal_name(int number) {
  switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    case SIGABRT: return "SIGABRT";
    case SIGKILL: return "SIGKILL";
    case SIGTERM: return "SIGTERM";
    case SIGTRAP: return "SIGTRAP";
    case SIGXCPU: return "SIGXCPU";
    default: return "signal " + std::to_string(number);
  }
}

[[noreturn]] void throw_no_process(const char* what, int error) {
  throw_runtime_error(
      std::string("cannot start a measurement worker: ") + what + ": " + std::strerror(error), {},
      "allow more processes and memory (ulimit -u, -v), or ask for fewer workers");
}

// Bytes of writable private memory now; what RLIMIT_DATA counts.
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

void limit_resources(int64_t memory_bytes) {
  limit(RLIMIT_CORE, 0);
  // Of what it prints. Beyond it writing fails, without a signal.
  limit(RLIMIT_FSIZE, kNoiseBytes);
  ::signal(SIGXFSZ, SIG_IGN);
  // Not RLIMIT_AS: that counts what is only reserved, 64 MiB for every thread that allocates.
  if (memory_bytes > 0) {
    limit(RLIMIT_DATA, static_cast<rlim_t>(data_bytes() + memory_bytes));
  }
  // LLVM aborts when it is out of memory, and so would much else: say what it was, and end.
  std::set_new_handler([] { ::_exit(kExitOutOfMemory); });
  // If the whole machine runs out of memory, a worker is to go first.
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    [[maybe_unused]] const ssize_t written = ::write(fd, "900", 3);
    ::close(fd);
  }
}

// What one compilation frees the next one takes: not given back to the system in between (7 % of
// the time to compile a matmul went into page faults). It counts as a worker's memory all the same.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  ::mallopt(M_TOP_PAD, 16 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // arrays are as everywhere
#endif
}

void reset_signals() {
  for (int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGTERM, SIGCHLD, SIGPIPE}) {
    ::signal(s, SIG_DFL);
  }
  // Ctrl-C reaches everyone at the terminal: the tuner decides what becomes of a worker.
  ::signal(SIGINT, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Other workers' channels among them: a worker sees that the tuner is gone by the end of its
// channel, which must not be held open by its brothers. And a log that the tuner has locked.
void close_others() {
#ifdef __linux__
  if (::close_range(kChannelFd + 1, ~0U, 0) == 0) return;
#endif
  const long most = ::sysconf(_SC_OPEN_MAX);
  for (int fd = kChannelFd + 1; fd < (most > 0 ? most : 1024); ++fd) ::close(fd);
}

void arrange_files(int channel, int noise) {
  const int kept_channel = ::fcntl(channel, F_DUPFD, 10);
  const int kept_noise = noise < 0 ? -1 : ::fcntl(noise, F_DUPFD, 10);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, 0);
  ::dup2(kept_noise >= 0 ? kept_noise : null, 1);
  ::dup2(1, 2);
  ::dup2(kept_channel, kChannelFd);
  close_others();
}

// LLVM aborts with a message when malloc fails; a kernel without memory is an exception.
bool names_memory(const std::string& text) {
  return text.find("out of memory") != std::string::npos ||
         text.find("Cannot allocate memory") != std::string::npos;
}

}  // namespace

const char* to_string(WorkerPhase phase) {
  switch (phase) {
    case WorkerPhase::Idle: return "idle";
    case WorkerPhase::Compile: return "compiling";
    case WorkerPhase::Prepare: return "packing its constants";
    case WorkerPhase::FirstCall:
    case WorkerPhase::Run: return "running";
    case WorkerPhase::Check: return "checking its output";
    case WorkerPhase::Reference: return "computing the reference";
  }
  return "";
}

void die_with_parent(pid_t parent) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(0);  // it died meanwhile
}

WorkerProcess::WorkerProcess(const Start& start) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) throw_no_process("socketpair", errno);
  ::fcntl(fds[0], F_SETFD, FD_CLOEXEC);
  ::fcntl(fds[1], F_SETFD, FD_CLOEXEC);
  channel_ = Channel(fds[0]);
  Channel theirs(fds[1]);
  void* shared = ::mmap(nullptr, sizeof(WorkerStatus), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw_no_process("mmap", errno);
  status_ = new (shared) WorkerStatus;
#ifdef __linux__
  noise_ = ::memfd_create("heddle-worker", MFD_CLOEXEC);
#endif
  const pid_t parent = ::getpid();
  pid_ = start.fork ? start.fork() : ::fork();
  if (pid_ < 0) {
    const int error = errno;
    ::munmap(status_, sizeof(WorkerStatus));
    if (noise_ >= 0) ::close(noise_);
    throw_no_process("fork", error);
  }
  if (pid_ != 0) return;
  die_with_parent(parent);
  run_child(start, fds[1]);
}

void WorkerProcess::run_child(const Start& start, int fd) {
  try {
    reset_signals();
    arrange_files(fd, noise_);
    limit_resources(start.memory_limit_bytes);
    keep_freed_memory();
    Channel channel(kChannelFd);
    start.main(channel, *status_);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::fflush(stderr);
    ::_exit(1);
  } catch (...) {
    ::_exit(1);
  }
  // Not exit(): what the tuner registered for its end, and its buffered output, are not ours.
  ::_exit(0);
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) {
    kill_runner();
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::munmap(status_, sizeof(WorkerStatus));
  if (noise_ >= 0) ::close(noise_);
}

bool WorkerProcess::alive() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

std::string WorkerProcess::last_words() const {
  if (noise_ < 0) return "";
  const off_t size = ::lseek(noise_, 0, SEEK_END);
  constexpr off_t kMost = 300;
  char text[kMost];
  const ssize_t n = ::pread(noise_, text, sizeof text, size > kMost ? size - kMost : 0);
  std::string out(text, n > 0 ? static_cast<size_t>(n) : 0);
  for (char& c : out) {
    // Nothing but ASCII: a character may have been cut in two, and records are UTF-8.
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 127) c = ' ';
  }
  const size_t last = out.find_last_not_of(' ');
  return last == std::string::npos ? "" : ": " + out.substr(0, last + 1);
}

bool WorkerProcess::kill_runner() {
  const pid_t runner = status_->runner.load();
  return runner > 0 && ::kill(runner, SIGKILL) == 0;
}

WorkerDeath WorkerProcess::bury(bool timed_out) {
  if (timed_out) {
    kill_runner();
    ::kill(pid_, SIGKILL);
  }
  int status = 0;
  pid_t reaped = -1;
  // A worker that closed its channel is at its end: it is given a moment, so that what it died of
  // is seen and not that we killed it.
  for (int i = 0; i < 2000 && !timed_out; ++i) {
    reaped = ::waitpid(pid_, &status, WNOHANG);
    if (reaped != 0 && !(reaped < 0 && errno == EINTR)) break;
    ::usleep(500);
  }
  if (reaped != pid_) {
    kill_runner();
    ::kill(pid_, SIGKILL);
    do {
      reaped = ::waitpid(pid_, &status, 0);
    } while (reaped < 0 && errno == EINTR);
  }
  // Somebody else may have waited for it: then all that is known is that it is gone.
  if (reaped < 0) status = kUnknownStatus;
  pid_ = -1;
  channel_.close();
  return explain(status, timed_out);
}

WorkerDeath WorkerProcess::explain(int status, bool timed_out) const {
  WorkerDeath death;
  death.phase = status_->phase.load();
  death.candidate = status_->candidate.load();
  const std::string when = std::string(" while ") + to_string(death.phase);
  const std::string words = last_words();
  if (timed_out) {
    death.error = MeasureError::Timeout;
    death.message = "took longer than allowed" + when;
    return death;
  }
  if (status == kUnknownStatus) {
    death.message = "the worker died" + when + words;
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == kExitOutOfMemory) {
    death.error = MeasureError::OutOfMemory;
    death.message = "out of memory" + when;
  } else if (WIFEXITED(status)) {
    death.message =
        "the worker exited with status " + std::to_string(WEXITSTATUS(status)) + when + words;
  } else if (WTERMSIG(status) == SIGKILL) {
    death.error = MeasureError::OutOfMemory;
    death.message = "the system killed the worker" + when + ", most likely for its memory";
  } else {
    death.message = signal_name(WTERMSIG(status)) + when + words;
  }
  if (names_memory(words)) death.error = MeasureError::OutOfMemory;
  return death;
}

}  // namespace heddle::search
