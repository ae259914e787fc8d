#include "measure/process/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <utility>

#include "heddle/support/error.h"

namespace heddle::measuring {
namespace {

// A status that waitpid() never returns.
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

struct OwnedFile {
  explicit OwnedFile(int descriptor) : fd(descriptor) {}
  ~OwnedFile() {
    if (fd >= 0) ::close(fd);
  }
  OwnedFile(const OwnedFile&) = delete;
  OwnedFile& operator=(const OwnedFile&) = delete;
  const int fd;
};

/// A duplicate of descriptor `fd`, with a number above those that a worker's files are moved to.
int moved_up(int fd) {
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, 10);
  const int error = errno;
  ::close(fd);
  if (moved < 0) throw_no_process("fcntl", error);
  return moved;
}

int new_memory_file(const char* name) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) throw_no_process("memfd_create", errno);
  return moved_up(fd);
}

/// The files and signals of a worker, for posix_spawn.
class SpawnSettings {
 public:
  SpawnSettings(int channel, int status, int shared, int noise) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_addopen(&files_, 0, "/dev/null", O_RDWR, 0);
    ::posix_spawn_file_actions_adddup2(&files_, noise, 1);
    ::posix_spawn_file_actions_adddup2(&files_, noise, 2);
    ::posix_spawn_file_actions_adddup2(&files_, channel, kChannelFd);
    ::posix_spawn_file_actions_adddup2(&files_, status, kStatusFd);
    ::posix_spawn_file_actions_adddup2(&files_, shared, kSharedFd);
    sigset_t signals;
    sigemptyset(&signals);
    for (int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGTERM, SIGCHLD, SIGPIPE})
      sigaddset(&signals, s);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    // Ctrl-C signals every process of the terminal. The tuner decides how a worker ends, so the
    // worker ignores it as soon as it runs.
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  pid_t spawn(std::vector<std::string> command) const {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, words[0], &files_, &attributes_, words.data(), environ);
    if (error != 0) throw_no_process(command[0].c_str(), error);
    return pid;
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

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

WorkerProcess::WorkerProcess(const Start& start) {
  HEDDLE_ICHECK(!start.command.empty(), "a worker is a program");
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    throw_no_process("socketpair", errno);
  channel_ = Channel(fds[0]);
  const OwnedFile theirs(moved_up(fds[1]));
  const OwnedFile shared(new_memory_file("heddle-status"));  // closed here once the worker has it
  if (::ftruncate(shared.fd, sizeof(WorkerStatus)) != 0) throw_no_process("ftruncate", errno);
  void* memory =
      ::mmap(nullptr, sizeof(WorkerStatus), PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, 0);
  if (memory == MAP_FAILED) throw_no_process("mmap", errno);
  status_ = new (memory) WorkerStatus;
  try {
    noise_ = new_memory_file("heddle-worker");
    const OwnedFile tasks(start.shared_fd < 0 ? new_memory_file("heddle-nothing")
                                              : ::fcntl(start.shared_fd, F_DUPFD_CLOEXEC, 10));
    if (tasks.fd < 0) throw_no_process("fcntl", errno);
    const SpawnSettings settings(theirs.fd, shared.fd, tasks.fd, noise_);
    std::vector<std::string> command = start.command;
    command.push_back("--of-tuner=" + std::to_string(::getpid()));
    pid_ = settings.spawn(std::move(command));
    channel_.send(start.hello);  // waiting will show if the worker is dead
  } catch (...) {
    ::munmap(status_, sizeof(WorkerStatus));
    if (noise_ >= 0) ::close(noise_);
    throw;
  }
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
    // Only ASCII is kept, because a character may have been cut in two, and records are UTF-8.
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
  // A worker that closed its channel is about to end. It is given a short time, so that its own
  // status is seen and not that of a kill.
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
  // Another part of the program may have waited for the process. Its status is then unknown.
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
  return death;
}

}  // namespace heddle::measuring
