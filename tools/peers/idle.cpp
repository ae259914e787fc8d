#include "peers/idle.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace heddle::peers {

int other_running_threads() {
  namespace fs = std::filesystem;
  const std::string self = std::to_string(::syscall(SYS_gettid));
  int running = 0;
  std::error_code error;
  for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task", error)) {
    if (task.path().filename() == self) continue;
    // The line is "tid (name) state ...". A name may contain anything, so the last bracket counts.
    std::ifstream file(task.path() / "stat");  // does not exist for a thread that has ended
    std::string line;
    std::getline(file, line);
    const size_t bracket = line.rfind(')');
    if (bracket != std::string::npos && line.compare(bracket, 3, ") R") == 0) ++running;
  }
  return running;
}

bool wait_until_idle(double at_most_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (other_running_threads() == 0) return true;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() >= at_most_seconds) return false;
  }
}

}  // namespace heddle::peers
