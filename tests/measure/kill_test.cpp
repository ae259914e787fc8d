// kill -9 of a tuner at any moment: recorded trials remain, and the next run continues from them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include "heddle/records/record_log.h"
#include "heddle/search/tune.h"
#include "heddle/support/rng.h"
#include "measure/measure_testing.h"

namespace heddle {
namespace {

using namespace testing;

TuneOptions quick_options(const std::string& log) {
  TuneOptions o;
  o.budget = std::chrono::hours(1);
  o.log = log;
  o.target = two_threads();
  o.batch = 2;
  o.patience = 1000000;
  o.protocol = quick_protocol();
  o.warm_start = false;
  return o;
}

// The tuner, in a process that can be killed: a byte through the pipe for every trial that it has
// been told of, which is after the trial was recorded.
[[noreturn]] void tune_until_killed(const std::string& log, int pipe) {
  try {
    TuneOptions o = quick_options(log);
    int told = 0;
    o.progress = [&](const TuneProgress& p) {
      for (; told < p.trials; ++told) {
        if (::write(pipe, "x", 1) != 1) ::_exit(4);
      }
    };
    tune_tasks({small_matmul()}, o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "the tuner failed: %s\n", e.what());
    ::_exit(3);
  }
  ::_exit(0);  // the space was exhausted
}

// How many bytes there are to read until the writers are gone.
size_t drain(int fd) {
  char buffer[4096];
  size_t count = 0;
  for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) != 0;) {
    if (n > 0) count += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) break;
  }
  return count;
}

TEST(KilledTuner, LosesNoRecordAndGoesOn) {
  const std::string log =
      (std::filesystem::temp_directory_path() / ("heddle-kill-" + std::to_string(::getpid())))
          .string() +
      ".jsonl";
  std::filesystem::remove(log);
  Rng rng(17);
  size_t before = 0, told_in_all = 0;
  const int kills = 30;
  for (int i = 0; i < kills; ++i) {
    int fds[2];
    ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(fds[0]);
      tune_until_killed(log, fds[1]);
    }
    ::close(fds[1]);
    ::usleep(static_cast<useconds_t>(rng.uniform_int(5'000, 1'200'000)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const bool by_itself = WIFEXITED(status);
    EXPECT_TRUE(!by_itself || WEXITSTATUS(status) == 0) << "kill " << i;
    const size_t told = drain(fds[0]);
    ::close(fds[0]);
    told_in_all += told;

    if (!std::filesystem::exists(log)) {
      EXPECT_EQ(told, 0u);
      continue;
    }
    const ReadResult read = read_records(log);
    // At most the line that was being written; it is closed off by the next writer, and stays as
    // one line that is skipped.
    EXPECT_LE(read.problems.size(), static_cast<size_t>(i) + 1);
    EXPECT_GE(read.records.size(), before + told) << "kill " << i;
    before = read.records.size();
  }
  EXPECT_GT(told_in_all, 0u) << "they were killed before they had begun";

  // No config was measured twice, whatever was cut off when.
  std::set<std::string> steps;
  size_t screened = 0;
  for (const Record& r : read_records(log).records) {
    if (r.raced()) continue;
    ++screened;
    steps.insert(r.steps.dump());
  }
  EXPECT_EQ(steps.size(), screened);

  // And a run that may end takes all of it over.
  TuneOptions o = quick_options(log);
  o.max_trials = 8;
  o.budget = std::chrono::seconds(2);
  int resumed = 0;
  o.progress = [&](const TuneProgress& p) { resumed = p.tasks.at(0).resumed; };
  const TuneReport report = tune_tasks({small_matmul()}, o);
  EXPECT_EQ(resumed, static_cast<int>(screened));
  EXPECT_LE(report.tasks.at(0).best_seconds, report.tasks.at(0).static_seconds);
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace heddle
