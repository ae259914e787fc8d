#include "support/files/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "heddle/support/error.h"

namespace heddle {
namespace {

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "heddle_file_test";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(File, ReadsBackWhatWasWritten) {
  const std::string path = folder_ + "/a";
  const std::string content("binary\0\n\xff", 9);
  write_file_atomic(path, content);
  EXPECT_EQ(read_file(path), content);
  write_file_atomic(path, "");
  EXPECT_EQ(read_file(path), "");
}

TEST_F(File, FailuresNameTheFileAndLeaveNothingBehind) {
  try {
    read_file(folder_ + "/absent");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::Runtime);
    EXPECT_NE(error.message.find("/absent': No such file"), std::string::npos) << error.message;
  }
  std::filesystem::create_directory(folder_ + "/taken");
  EXPECT_THROW(write_file_atomic(folder_ + "/taken", "x"), Error);
  EXPECT_THROW(write_file_atomic(folder_ + "/no/such/folder", "x"), Error);
  EXPECT_THROW(read_file(folder_), Error);
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++entries;
  EXPECT_EQ(entries, 1);
}

TEST_F(File, ManyWritersNeverMix) {
  const std::string path = folder_ + "/shared";
  std::vector<std::thread> writers;
  for (char c : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&, c] {
      for (int i = 0; i < 5; ++i) write_file_atomic(path, std::string(100000, c));
    });
  }
  for (auto& writer : writers) writer.join();
  const std::string content = read_file(path);
  EXPECT_EQ(content, std::string(100000, content[0]));
}

}  // namespace
}  // namespace heddle
