// The worker program: what it does before it serves requests, and how it ends when it cannot serve.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <new>
#include <optional>
#include <string_view>

#include "heddle/measure/worker.h"
#include "heddle/support/error.h"
#include "measure/cpu/server.h"
#include "measure/cuda/server.h"
#include "measure/fleet/node_server.h"
#include "measure/messages/answers.h"
#include "measure/messages/requests.h"
#include "measure/process/hooks.h"
#include "measure/process/limits.h"

namespace heddle::measuring {
namespace {

/// A worker's connection to the process that sends requests.
struct Connection {
  Channel channel;
  WorkerStatus* status = nullptr;
  int shared_fd = -1;
};

WorkerStatus* map_status(int fd) {
  const int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = ::mmap(nullptr, sizeof(WorkerStatus), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) throw_runtime_error("cannot map the status of a worker");
  // Where the status is shared, the tuner has constructed it.
  return fd < 0 ? new (memory) WorkerStatus : static_cast<WorkerStatus*>(memory);
}

Connection connect_to_tuner(pid_t tuner) {
  die_with_parent(tuner);
  ignore_interrupts();
  close_from(kSharedFd + 1);
  return {Channel(kChannelFd), map_status(kStatusFd), kSharedFd};
}

/// Requests come from the standard input and answers go to the standard output. Candidates cannot
/// write to it.
Connection connect_to_pipes() {
  ::signal(SIGPIPE, SIG_IGN);
  const int in = ::fcntl(0, F_DUPFD_CLOEXEC, 10), out = ::fcntl(1, F_DUPFD_CLOEXEC, 10);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, 0);
  ::dup2(null, 1);
  ::close(null);
  return {Channel(in, out), map_status(-1), -1};
}

/// The process id in `--of-tuner=pid`, the last argument.
std::optional<pid_t> tuner_of(int argc, const char* const* argv) {
  constexpr std::string_view kOption = "--of-tuner=";
  const std::string_view last = argc > 1 ? argv[argc - 1] : "";
  if (!last.starts_with(kOption)) return std::nullopt;
  pid_t pid = 0;
  std::from_chars(last.data() + kOption.size(), last.data() + last.size(), pid);
  return pid;
}

void serve(Connection& connection, const WorkerHooks& hooks) {
  Channel& channel = connection.channel;
  const std::optional<Json> first = channel.receive();
  if (!first) return;
  Hello hello;
  try {
    hello = hello_from(*first);
  } catch (const Error& e) {
    channel.send(encode(Started{.message = e.what()}));
    throw;
  }
  if (hello.node) {  // the workers of a node have the limits
    die_with_parent(::getppid());
    return serve_node(channel, hello);
  }
  limit_resources(hello.memory_limit_bytes);
  keep_freed_memory();
  if (hooks.fault) hooks.fault("start", 0, {});
  if (!channel.send(encode(Started{}))) return;
  WorkerTasks tasks(connection.shared_fd);
  if (hooks.serve) {
    hooks.serve(channel, *connection.status);
  } else if (hello.kind == WorkerKind::Cpu) {
    serve_worker(channel, *connection.status, tasks, hello.measure, hooks);
  } else {
    serve_cuda(channel, *connection.status, tasks, hello.measure, hooks);
  }
}

}  // namespace

int run_worker(int argc, const char* const* argv, const WorkerHooks& hooks) {
  int status = 0;
  try {
    const std::optional<pid_t> tuner = tuner_of(argc, argv);
    Connection connection = tuner ? connect_to_tuner(*tuner) : connect_to_pipes();
    serve(connection, hooks);
  } catch (const Error& error) {
    std::fprintf(stderr, "heddle-worker: %s\n", error.what());
    status = 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  std::fflush(stderr);
  // Destructors do not run: this may be a runner in which a candidate has overwritten their data.
  ::_exit(status);
}

}  // namespace heddle::measuring

namespace heddle {

int worker_main(int argc, const char* const* argv) { return measuring::run_worker(argc, argv, {}); }

}  // namespace heddle

/// The entry point that the program heddle-worker looks up in the library.
extern "C" int heddle_worker_main(int argc, const char* const* argv) {
  return heddle::worker_main(argc, argv);
}
