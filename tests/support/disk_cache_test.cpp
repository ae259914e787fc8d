#include "heddle/support/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "heddle/support/error.h"
#include "support/files/build_id.h"
#include "support/files/file.h"

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

fs::perms mode_of(const fs::path& path) { return fs::symlink_status(path).permissions(); }

TEST_F(DiskCacheTest, WhatIsMadeIsForTheUserAlone) {
  const mode_t before = ::umask(0);
  const fs::path inner = folder_ / "a" / "b";
  const DiskCache cache(inner.string(), ".x", 1 << 20);
  cache.store("k", "content");
  ::umask(before);
  for (const fs::path& path : {folder_, folder_ / "a", inner})
    EXPECT_EQ(mode_of(path), fs::perms::owner_all) << path;
  const fs::perms mine = fs::perms::owner_read | fs::perms::owner_write;
  for (const char* file : {"k.x", "key"}) EXPECT_EQ(mode_of(inner / file), mine) << file;
  EXPECT_EQ(cache.load("k").content, "content");
}

TEST_F(DiskCacheTest, AFolderThatOthersCanWriteToIsNotUsed) {
  cache_.store("k", "content");
  for (const fs::perms who : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(folder_, fs::perms::owner_all | who);
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(cache_.load("k").content);
    EXPECT_FALSE(cache_.load("k").damaged);
    cache_.store("l", "content");
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(folder_.string()), std::string::npos) << said;
    EXPECT_NE(said.find("other users can write to it (mode 07"), std::string::npos) << said;
    EXPECT_NE(said.find("chmod 700"), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(cache_.refusal(), "");
    EXPECT_EQ(cache_.entries().size(), 1U) << "nothing is stored or removed";
    EXPECT_THROW(cache_.clear(), Error);
  }
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec);
  EXPECT_EQ(cache_.load("k").content, "content") << "others may look";
}

TEST_F(DiskCacheTest, FilesUnderAnotherKeyAreNotTaken) {
  const fs::path other = folder_ / "other";
  const DiskCache foreign(other.string(), ".x", 1 << 20);
  cache_.store("k", "mine");
  foreign.store("k", "poison");
  fs::copy_file(other / "k.x", folder_ / "k.x", fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache_.load("k").content);
  // As files were before: a hash that everybody can compute.
  write_file_atomic((folder_ / "k.x").string(), "heddle-cache k 0123456789abcdef\npoison");
  EXPECT_TRUE(cache_.load("k").damaged);
  // Another key replaces this user's one.
  cache_.store("k", "mine");
  fs::remove(folder_ / "key");
  EXPECT_FALSE(cache_.load("k").content);
  cache_.store("l", "new");
  EXPECT_TRUE(cache_.load("k").damaged);
  EXPECT_EQ(cache_.load("l").content, "new");
}

TEST_F(DiskCacheTest, FilesOfAnotherKindAreNotTaken) {
  const DiskCache kind(folder_.string(), ".y", 1 << 20);
  kind.store("k", "of another kind");
  fs::rename(folder_ / "k.y", folder_ / "k.x");
  EXPECT_TRUE(cache_.load("k").damaged);
}

TEST_F(DiskCacheTest, AKeyThatOthersKnowIsNotUsed) {
  cache_.store("k", "content");
  fs::permissions(folder_ / "key", fs::perms::others_read, fs::perm_options::add);
  EXPECT_FALSE(cache_.load("k").content);
  EXPECT_NE(cache_.refusal().find("access to its file 'key'"), std::string::npos);
  for (const std::string& bad : {std::string(), std::string(15, 'x'), std::string(17, 'x')}) {
    fs::remove(folder_ / "key");
    write_file_atomic((folder_ / "key").string(), bad);
    fs::permissions(folder_ / "key", fs::perms::owner_read);
    EXPECT_NE(cache_.refusal().find("'key' is no key"), std::string::npos) << bad.size();
  }
}

TEST_F(DiskCacheTest, LinksAndPipesInItAreNotFollowed) {
  cache_.store("k", "content");
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::rename(folder_ / "k.x", elsewhere);
  fs::create_symlink(elsewhere, folder_ / "k.x");
  EXPECT_FALSE(cache_.load("k").content);
  EXPECT_TRUE(fs::exists(elsewhere));
  ASSERT_EQ(::mkfifo((folder_ / "p.x").c_str(), 0600), 0);
  EXPECT_TRUE(cache_.load("p").damaged);  // it does not wait for a writer
  fs::rename(folder_ / "key", folder_ / "other key");
  fs::create_symlink(folder_ / "other key", folder_ / "key");
  EXPECT_NE(cache_.refusal(), "");
}

TEST_F(DiskCacheTest, OnlyTheUsersOwnLinkToTheFolderIsFollowed) {
  fs::create_directories(folder_);
  const fs::path link = folder_ / "link";
  fs::create_directory_symlink(folder_ / "target", link);
  const DiskCache target((folder_ / "target").string(), ".x", 1 << 20), linked(link, ".x", 1 << 20);
  target.store("k", "content");
  EXPECT_EQ(linked.load("k").content, "content");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of other users";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::lchown(link.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(linked.load("k").content);
  EXPECT_NE(linked.refusal().find("link of another user"), std::string::npos);
  ASSERT_EQ(::lchown((folder_ / "target" / "key").c_str(), kNobody, kNobody), 0);
  EXPECT_NE(target.refusal().find("'key' belongs to another user"), std::string::npos);
  ASSERT_EQ(::chown((folder_ / "target").c_str(), kNobody, kNobody), 0);
  EXPECT_NE(target.refusal().find("it belongs to another user"), std::string::npos);
}

TEST_F(DiskCacheTest, TheKeyLiesAboveTheFoldersOfCaches) {
  const char* before = std::getenv("HEDDLE_CACHE");
  const std::string old = before != nullptr ? before : "";
  ::setenv("HEDDLE_CACHE", (folder_.string() + "/").c_str(), 1);
  const DiskCache code(cache_folder("code"), ".o", 1 << 20);
  code.store("k", "content");
  EXPECT_EQ(code.load("k").content, "content");
  EXPECT_TRUE(fs::exists(folder_ / "key"));
  EXPECT_FALSE(fs::exists(folder_ / "code" / "key"));
  fs::permissions(folder_, fs::perms::all);
  EXPECT_FALSE(code.load("k").content);
  before != nullptr ? ::setenv("HEDDLE_CACHE", old.c_str(), 1) : ::unsetenv("HEDDLE_CACHE");
}

// One key counts, whoever was first.
TEST_F(DiskCacheTest, ProcessesThatStartTogetherAgreeOnAKey) {
  for (int round = 0; round < 20; ++round) {
    fs::remove_all(folder_);
    const pid_t child = ::fork();
    const std::string name = child == 0 ? "child" : "parent";
    cache_.store(name, "content");
    if (child == 0) ::_exit(0);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    for (const char* key : {"child", "parent"}) EXPECT_EQ(cache_.load(key).content, "content");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3) << "two files and the key";
  }
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
  ::setenv("HEDDLE_CUBIN_CACHE_MB", "3", 1);
  EXPECT_EQ(cache_limit("HEDDLE_CUBIN_CACHE_MB", 7), 3U << 20);
  ::unsetenv("HEDDLE_CUBIN_CACHE_MB");
  EXPECT_EQ(cache_limit("HEDDLE_CUBIN_CACHE_MB", 7), 7U << 20);
}

TEST(BuildId, IsOne) {
  EXPECT_GE(build_id().size(), 8U);
  EXPECT_NE(build_id(), "unknown");
}

}  // namespace
}  // namespace heddle
