#include "network/export/link_library.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>

#include "heddle/support/error.h"
#include "support/environment.h"
#include "support/files/file.h"
#include "support/files/this_library.h"

extern char** environ;  // NOLINT: POSIX leaves its declaration to programs

namespace heddle::network {
namespace {

/// The path of libheddle_runtime.a, which is next to the library that contains this function.
std::string runtime_archive() {
  const std::filesystem::path library = internal::this_library().value_or("");
  const std::filesystem::path archive = library.parent_path() / "libheddle_runtime.a";
  if (std::filesystem::is_regular_file(archive)) return archive.string();
  const std::filesystem::path build = library.parent_path().parent_path();
  throw_runtime_error(
      "the runtime that exported networks are linked with is not at " + archive.string(), {},
      std::filesystem::is_regular_file(build / "CMakeCache.txt")
          ? "make it: cmake --build '" + build.string() + "' --target heddle_rt"
          : "install Heddle again, or put the file of the same version there");
}

std::string driver() {
  const std::string named = internal::environment_value("CXX");
  return named.empty() ? "c++" : named;
}

/// Runs a program to its end with its output in the file `log`. Returns its exit status, or -1
/// where it cannot be started.
int run_program(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

void link_library(const LinkInput& input, const std::string& scratch, const std::string& library) {
  const std::string exports = scratch + "/exports.map", log = scratch + "/driver.log";
  write_file_atomic(exports, "{ global: " + input.exported_prefix + "*; local: *; };\n");
  // CXX may contain options after the name of the program.
  std::vector<std::string> command;
  const std::string words = driver();
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (end > at) command.push_back(words.substr(at, end - at));
    at = end + 1;
  }
  for (const char* option : {"-shared", "-fPIC", "-O1", "-x", "c"}) command.emplace_back(option);
  command.push_back(input.c_file);
  command.emplace_back("-x");
  command.emplace_back("none");
  command.insert(command.end(), input.objects.begin(), input.objects.end());
  command.push_back(runtime_archive());
  for (const char* option :
       {"-static-libgcc", "-static-libstdc++", "-Wl,--gc-sections", "-s", "-pthread", "-ldl"})
    command.emplace_back(option);
#if defined(__x86_64__) && defined(__GLIBC__)
  command.emplace_back("-lmvec");
#endif
  command.emplace_back("-lm");
  // -Wl would split the path at its commas.
  command.emplace_back("-Xlinker");
  command.push_back("--version-script=" + exports);
  command.emplace_back("-o");
  command.push_back(library);
  const int status = run_program(command, log);
  if (status == 0) return;
  const std::string help = "install g++, or name a compiler driver by the environment variable CXX";
  if (status < 0) throw_runtime_error("cannot start the linker: '" + command[0] + "'", {}, help);
  std::string printed = read_file(log);
  if (printed.size() > 2000) printed = printed.substr(0, 2000) + "...";
  throw_runtime_error("'" + command[0] + "' could not link the exported network:\n" + printed, {},
                      help);
}

}  // namespace heddle::network
