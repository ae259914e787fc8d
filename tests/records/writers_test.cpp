// Several processes append to one log; some are killed in the middle of it.
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <map>
#include <system_error>
#include <thread>

#include "heddle/support/rng.h"
#include "records/records_testing.h"

namespace heddle::testing {
namespace {

using ::testing::IsEmpty;

Record sample() {
  static const Record made = record_of(matmul(8, 8, 8), test_target());
  return made;
}

/// Runs `body` in a process of its own, which ends without the tests' own clean-up.
template <class F>
pid_t in_child(F body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  return child;
}

/// Records with the seeds first, first + 1, ...; for ever where `count` is 0.
void append_many(const std::string& path, uint64_t first, uint64_t count) {
  RecordLog log(path);
  Record r = sample();
  for (uint64_t i = 0; count == 0 || i < count; ++i) {
    r.seed = first + i;
    // Lines of very different lengths, some of more than a page.
    r.message = std::string(i % 7 == 0 ? 9000 : i % 5, 'x');
    log.append(r);
  }
}

TEST(Writers, FourProcessesLoseNothing) {
  const Folder folder;
  const std::string path = folder / "log.jsonl";
  sample();
  std::vector<pid_t> children;
  for (uint64_t p = 0; p < 4; ++p) {
    children.push_back(in_child([&, p] { append_many(path, p * 1000, 200); }));
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const ReadResult read = read_records(path);
  EXPECT_THAT(read.problems, IsEmpty());
  ASSERT_EQ(read.records.size(), 800u);
  std::map<uint64_t, uint64_t> next;  // of each process, in its order
  for (const Record& r : read.records) EXPECT_EQ(r.seed % 1000, next[r.seed / 1000]++);
}

// Each process is killed at some moment while it appends without end. Its records are there in
// order and without a gap; at most the last one is torn.
TEST(Writers, KilledAtAnyMoment) {
  const Folder folder;
  const std::string path = folder / "log.jsonl";
  sample();
  Rng rng(5);
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    std::error_code none;
    const auto size = std::filesystem::file_size(path, none);
    const pid_t child =
        in_child([&] { append_many(path, static_cast<uint64_t>(round) * 1000000, 0); });
    while (std::filesystem::file_size(path, none) == size || none) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(rng.uniform_int(0, 3000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  const ReadResult read = read_records(path);
  EXPECT_LE(read.problems.size(), static_cast<size_t>(kRounds));
  std::map<uint64_t, uint64_t> next;
  for (const Record& r : read.records) EXPECT_EQ(r.seed % 1000000, next[r.seed / 1000000]++);
  EXPECT_GE(read.records.size(), static_cast<size_t>(kRounds) - 1);
}

}  // namespace
}  // namespace heddle::testing
