// Files of several arrays: those of np.savez are read, those of Heddle are read again, and damaged
// ones are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "heddle/runtime/npz.h"
#include "heddle/support/error.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

class Npz : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string error_of(const std::string& content) const {
    write_file_atomic(path_, content);
    try {
      load_npz(path_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User) << e.message;
      EXPECT_THAT(e.message, HasSubstr(path_));
      return e.message + " " + e.help;
    }
    return "no error";
  }

  std::string path_ = ::testing::TempDir() + "arrays_" + std::to_string(::getpid()) + ".npz";
};

std::string bytes_of_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

// np.savez(file, x=np.array([1.5, -2], np.float32)) of NumPy 2: its sizes are in 64 bits.
const std::string kOfNumpy = bytes_of_hex(
    "504b03042d000000000000002100d6434b05ffffffffffffffff05001400782e6e7079010010008800000000"
    "0000008800000000000000934e554d5059010076007b276465736372273a20273c6634272c2027666f727472"
    "616e5f6f72646572273a2046616c73652c20277368617065273a2028322c292c207d20202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020200a0000c03f000000c0504b01022d032d000000000000002100d6434b05880000008800000005"
    "0000000000000000000000800100000000782e6e7079504b0506000000000100010033000000bf0000000000");

TEST_F(Npz, ReadsWhatNumpyWrites) {
  write_file_atomic(path_, kOfNumpy);
  const std::map<std::string, NDArray> arrays = load_npz(path_);
  ASSERT_EQ(arrays.size(), 1U);
  const NDArray& x = arrays.at("x");
  ASSERT_EQ(describe(x), "f32[2]");
  EXPECT_EQ(x.get(0), 1.5);
  EXPECT_EQ(x.get(1), -2);
}

TEST_F(Npz, ReadsWhatItWrites) {
  const std::map<std::string, NDArray> arrays = {{"a", NDArray::random({3, 2}, f32, 1)},
                                                 {"b/c", NDArray::random({5}, i64, 2)},
                                                 {"scalar", NDArray::full({}, f16, 3)}};
  save_npz(path_, arrays);
  const std::map<std::string, NDArray> again = load_npz(path_);
  ASSERT_EQ(again.size(), arrays.size());
  for (const auto& [name, array] : arrays) {
    EXPECT_EQ(describe(again.at(name)), describe(array));
    EXPECT_EQ(max_abs_diff(again.at(name), array), 0);
  }
  EXPECT_THROW(save_npz(path_, {}), Error);
}

TEST_F(Npz, RefusesDamagedFiles) {
  save_npz(path_, {{"x", NDArray::random({4}, f32, 1)}});
  const std::string good = read_file(path_);
  EXPECT_EQ(error_of(good + "a comment"), "no error");
  EXPECT_THAT(error_of(""), HasSubstr("no zip archive"));
  EXPECT_THAT(error_of("PK"), HasSubstr("no zip archive"));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 1)), HasSubstr("no zip archive"));
  std::string bad = good;
  bad[good.find("NUMPY") + 130] ^= 1;
  EXPECT_THAT(error_of(bad), HasSubstr("'x.npy' are damaged"));
  bad = good;
  bad[good.size() - 6] = static_cast<char>(good.size() - 30);  // where the directory begins
  EXPECT_THAT(error_of(bad), HasSubstr("directory is damaged"));
  // Every file that is cut, or has a changed byte, is read or refused as a mistake of the user.
  for (size_t i = 0; i < good.size(); ++i) {
    error_of(good.substr(0, i));
    bad = good;
    bad[i] ^= 0x55;
    error_of(bad);
  }
}

TEST_F(Npz, SaysHowToWriteWhatItCannotRead) {
  save_npz(path_, {{"x", NDArray::random({4}, f32, 1)}});
  std::string bad = read_file(path_);
  bad[bad.find("PK\1\2") + 10] = 8;  // deflated
  EXPECT_THAT(error_of(bad), HasSubstr("by np.savez, not by np.savez_compressed"));
}

}  // namespace
}  // namespace heddle
