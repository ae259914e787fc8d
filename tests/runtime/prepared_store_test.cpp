// Packed weights on the disk.
#include "runtime/kernel/prepared_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "support/files/file.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

class PreparedStore : public ::testing::Test {
 protected:
  PreparedStore() {
    if (const char* old = std::getenv("HEDDLE_CACHE")) old_ = old;
    ::setenv("HEDDLE_CACHE", folder_.c_str(), 1);
  }
  ~PreparedStore() override {
    ::setenv("HEDDLE_CACHE", old_.c_str(), 1);
    fs::remove_all(folder_);
  }
  static std::vector<NDArray> empty() {
    return {NDArray::zeros({300, 1000}, f32), NDArray::zeros({7}, i8)};
  }
  static bool same(const std::vector<NDArray>& a, const std::vector<NDArray>& b) {
    return max_abs_diff(a[0], b[0]) == 0 && max_abs_diff(a[1], b[1]) == 0;
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("heddle_prepared_store_" + std::to_string(::getpid()));
  std::string old_ = "off";
  const std::vector<NDArray> values_ = {NDArray::random({300, 1000}, f32, 1),
                                        NDArray::random({7}, i8, 2)};
  const NDArray weights_ = NDArray::random({50}, f32, 3);
  const std::string key_ = prepared_key("code", {&weights_, 1}, {});
};

TEST_F(PreparedStore, WhatWasStoredIsFound) {
  std::vector<NDArray> found = empty();
  EXPECT_FALSE(load_prepared(key_, found));
  store_prepared(key_, values_);
  ASSERT_TRUE(load_prepared(key_, found));
  EXPECT_TRUE(same(found, values_));
  EXPECT_EQ(disk_weights_cache().entries().size(), 1U) << "nothing unfinished is left";
}

TEST_F(PreparedStore, OtherCodeAndOtherWeightsHaveOtherKeys) {
  EXPECT_EQ(prepared_key("", {&weights_, 1}, {}), "");
  EXPECT_EQ(prepared_key("code", {&weights_, 1}, {}), key_);
  EXPECT_NE(prepared_key("other", {&weights_, 1}, {}), key_);
  const NDArray changed = weights_.copy();
  changed.set(49, 7);
  EXPECT_NE(prepared_key("code", {&changed, 1}, {}), key_);
  const NDArray pair[] = {weights_, changed}, turned[] = {changed, weights_};
  EXPECT_NE(prepared_key("code", pair, {}), prepared_key("code", turned, {}));
}

TEST_F(PreparedStore, DamagedFilesAreNotTaken) {
  const std::string file = folder_ / "weights" / disk_weights_cache().name_of(key_);
  const auto damaged = [&](auto&& damage) {
    store_prepared(key_, values_);
    std::string bytes = read_file(file);
    damage(bytes);
    write_file_atomic(file, bytes);
    std::vector<NDArray> found = empty();
    const bool taken = load_prepared(key_, found);
    return !taken && !fs::exists(file);
  };
  EXPECT_TRUE(damaged([](std::string& b) { b[b.size() / 2] ^= 1; }));
  EXPECT_TRUE(damaged([](std::string& b) { b.back() ^= 1; }));
  EXPECT_TRUE(damaged([](std::string& b) { b[3] ^= 1; }));
  EXPECT_TRUE(damaged([](std::string& b) { b.pop_back(); }));
  EXPECT_TRUE(damaged([](std::string& b) { b += 'x'; }));
  EXPECT_TRUE(damaged([](std::string& b) { b.clear(); }));
}

TEST_F(PreparedStore, WeightsUnderAnotherKeyAreNotTaken) {
  store_prepared(key_, values_);
  const fs::path key = folder_ / "key",
                 file = folder_ / "weights" / disk_weights_cache().name_of(key_);
  fs::rename(key, folder_ / "old key");
  std::vector<NDArray> found = empty();
  EXPECT_FALSE(load_prepared(key_, found)) << "there is no key";
  disk_weights_cache().store("other", "");  // makes a key
  ASSERT_TRUE(fs::exists(key));
  EXPECT_FALSE(load_prepared(key_, found));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(PreparedStore, ManyWritersAndReadersAgree) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int time = 0; time < 5; ++time) {
        store_prepared(key_, values_);
        std::vector<NDArray> found = empty();
        EXPECT_TRUE(load_prepared(key_, found));
        EXPECT_TRUE(same(found, values_));
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(PreparedStore, TheCacheCanBeOff) {
  ::setenv("HEDDLE_CACHE", "off", 1);
  store_prepared(key_, values_);
  std::vector<NDArray> found = empty();
  EXPECT_FALSE(load_prepared(key_, found));
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace heddle
