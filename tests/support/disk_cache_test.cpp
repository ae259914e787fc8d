#include "heddle/support/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "heddle/support/build_id.h"
#include "heddle/support/error.h"
#include "heddle/support/file.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public testing::Test {
 protected:
  DiskCacheTest() { fs::remove_all(folder_); }
  ~DiskCacheTest() override { fs::remove_all(folder_); }

  const fs::path folder_ =
      fs::temp_directory_path() / ("heddle_disk_cache_test_" + std::to_string(::getpid()));
  const DiskCache cache_{folder_.string(), ".x", 1 << 20};
};

TEST_F(DiskCacheTest, WhatIsStoredIsFound) {
  EXPECT_FALSE(cache_.load("k").content);
  EXPECT_FALSE(cache_.load("k").damaged);
  const std::string content("a\n\0b", 4);
  cache_.store("k", content);
  EXPECT_EQ(cache_.load("k").content, content);
  EXPECT_FALSE(cache_.load("other").content);
  EXPECT_EQ(cache_.entries().size(), 1U);
}

TEST_F(DiskCacheTest, DamagedFilesAreToldAndRemoved) {
  cache_.store("k", "content of a file");
  const std::string path = cache_.entries().at(0).path.string(), good = read_file(path);
  std::string flipped = good;
  flipped.back() ^= 1;
  for (const std::string& bad : {std::string(), good.substr(0, good.size() - 1), flipped,
                                 good + "x", std::string("no head"), "x" + good}) {
    write_file_atomic(path, bad);
    const DiskCache::Answer answer = cache_.load("k");
    EXPECT_FALSE(answer.content) << bad;
    EXPECT_TRUE(answer.damaged) << bad;
    EXPECT_TRUE(cache_.entries().empty());
  }
  // A file under the name of another key is no answer.
  cache_.store("k", "content");
  fs::rename(path, folder_ / "l.x");
  EXPECT_TRUE(cache_.load("l").damaged);
}

TEST_F(DiskCacheTest, TheLeastRecentlyUsedFilesGo) {
  const std::string content(100 << 10, 'x');
  cache_.store("kept", content);
  const int count = 130;  // two sweeps at least
  for (int i = 0; i < count; ++i) {
    const std::string key = std::to_string(i);
    cache_.store(key, content);
    const auto used = fs::file_time_type::clock::now() - std::chrono::hours(2 * count - i);
    fs::last_write_time(folder_ / (key + ".x"), used);
    ASSERT_TRUE(cache_.load("kept").content) << "it was used just before";
  }
  std::uintmax_t total = 0;
  for (const DiskCache::Entry& e : cache_.entries()) total += e.bytes;
  // Nothing is swept between two sweeps, 64 stores apart.
  EXPECT_LE(total, cache_.limit_bytes() + 64 * (101 << 10));
  EXPECT_TRUE(cache_.load(std::to_string(count - 1)).content);
  EXPECT_FALSE(cache_.load("0").content);
  EXPECT_GT(cache_.clear(), 0);
  EXPECT_TRUE(cache_.entries().empty());
}

TEST_F(DiskCacheTest, OtherFilesAreLeftAlone) {
  cache_.store("k", "content");
  write_file_atomic((folder_ / "mine.txt").string(), "mine");
  EXPECT_EQ(cache_.clear(), 1);
  EXPECT_EQ(read_file((folder_ / "mine.txt").string()), "mine");
}

// Each reader sees a whole file of some writer, or none.
TEST_F(DiskCacheTest, ProcessesAndThreadsShareAFolder) {
  const auto work = [&](int seed) {
    bool good = true;
    for (int i = 0; i < 60; ++i) {
      const std::string key = std::to_string((i + seed) % 5);
      cache_.store(key, std::string(20000, static_cast<char>('a' + seed)));
      const DiskCache::Answer answer = cache_.load(key);
      good &= !answer.damaged;
      if (answer.content) {
        good &= answer.content->size() == 20000 &&
                answer.content->find_first_not_of((*answer.content)[0]) == std::string::npos;
      }
    }
    return good;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work(0) ? 0 : 1);
  bool good[2] = {};
  {
    std::jthread other([&] { good[0] = work(1); });
    good[1] = work(2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(good[0] && good[1]);
  for (const DiskCache::Entry& e : cache_.entries()) EXPECT_EQ(e.path.extension(), ".x");
}

TEST(DiskCacheFolder, CannotBeMade) {
  const DiskCache cache("/proc/no/such/folder", ".x", 1 << 20);
  EXPECT_NO_THROW(cache.store("k", "content"));
  EXPECT_FALSE(cache.load("k").content);
  EXPECT_EQ(cache.clear(), 0);
}

TEST(DiskCacheFolder, FollowsTheEnvironment) {
  const char* before = std::getenv("HEDDLE_CACHE");
  const std::string old = before != nullptr ? before : "";
  ::setenv("HEDDLE_CACHE", "off", 1);
  EXPECT_EQ(cache_folder("code"), "");
  ::setenv("HEDDLE_CACHE", "/somewhere", 1);
  EXPECT_EQ(cache_folder("code"), "/somewhere/code");
  before != nullptr ? ::setenv("HEDDLE_CACHE", old.c_str(), 1) : ::unsetenv("HEDDLE_CACHE");
  ::setenv("HEDDLE_TEST_LIMIT", "3", 1);
  EXPECT_EQ(cache_limit("HEDDLE_TEST_LIMIT", 7), 3U << 20);
  EXPECT_EQ(cache_limit("HEDDLE_NO_SUCH_LIMIT", 7), 7U << 20);
}

TEST(BuildId, IsOne) {
  EXPECT_GE(build_id().size(), 8U);
  EXPECT_NE(build_id(), "unknown");
}

}  // namespace
}  // namespace heddle
