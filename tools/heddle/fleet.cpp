// heddle fleet: runs heddle-fleet, a Python program.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "commands.h"
#include "heddle/measure/fleet.h"
#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

int run_program(std::vector<std::string> command) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, words[0], nullptr, nullptr, words.data(), environ);
  if (error != 0) throw_runtime_error(command[0] + ": " + std::strerror(error));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

std::vector<std::string> devices_here() {
  std::vector<std::string> out{fleet_resource(Target::host()) + "=1"};
  if (const size_t gpus = cuda::devices().size(); gpus > 0)
    out.push_back(fleet_resource(Target::cuda()) + "=" + std::to_string(gpus));
  return out;
}

}  // namespace

int start_fleet(const Request& request) {
  std::vector<std::string> command = fleet_command();
  command.emplace_back("up");
  for (const std::string& d : request.devices.empty() ? devices_here() : request.devices)
    command.insert(command.end(), {"--resource", d});
  return run_program(std::move(command));
}

int show_fleet(const Request& request) {
  std::vector<std::string> command = fleet_command();
  command.insert(command.end(), {"status", "--address", request.address});
  return run_program(std::move(command));
}

}  // namespace heddle::cli
