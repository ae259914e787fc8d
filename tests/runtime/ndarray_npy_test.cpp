// Files of NumPy's format: files of np.save are read, files of Heddle have the same bytes, and a
// damaged file is refused. The contents of files are written out here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

class Npy : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("npy_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "a.npy") const { return (folder_ / name).string(); }

  NDArray read(const std::string& content) const {
    std::ofstream(path(), std::ios::binary) << content;
    return NDArray::load(path());
  }

  std::string error_of(const std::string& content) const {
    try {
      read(content);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User) << e.message;
      EXPECT_THAT(e.message, HasSubstr(path()));
      return e.message;
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

/// A file with this dictionary, in whatever way a writer pads it.
std::string file(const std::string& dictionary, const std::string& data, int version = 1) {
  const std::string header = dictionary + "\n";
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  const int width = version == 1 ? 2 : 4;
  for (int i = 0; i < width; ++i) out += static_cast<char>(header.size() >> 8 * i & 0xff);
  return out + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

const DataType kAllTypes[] = {f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean};

TEST_F(Npy, EveryTypeAndShapeComesBack) {
  for (const DataType dtype : kAllTypes) {
    for (const Extents& extents :
         {Extents{}, Extents{5}, Extents{2, 3}, Extents{0, 4}, Extents{2, 1, 3, 2}}) {
      const NDArray a = NDArray::random(extents, dtype, 3);
      a.save(path());
      const NDArray b = NDArray::load(path());
      EXPECT_EQ(describe(a), describe(b));
      EXPECT_EQ(max_abs_diff(a, b), 0) << describe(a);
    }
  }
}

TEST_F(Npy, WhatIsWrittenIsWhatNumPyWrites) {
  NDArray::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}).save(path());
  // np.save("a.npy", np.arange(1, 7, dtype=np.float32).reshape(2, 3))
  const std::string start("\x93NUMPY\x01\x00\x76\x00", 10);
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const std::string content = read_file(path());
  ASSERT_EQ(content.size(), 128u + 24u);
  EXPECT_EQ(content.substr(0, 10), start);
  EXPECT_EQ(content.substr(10, header.size()), header);
  EXPECT_EQ(content.substr(10 + header.size(), 128 - 11 - header.size()),
            std::string(128 - 11 - header.size(), ' '));
  EXPECT_EQ(content[127], '\n');
  EXPECT_EQ(content.substr(128, 4), std::string("\0\0\x80\x3f", 4));

  NDArray::zeros({3}, bf16).save(path());
  EXPECT_THAT(read_file(path()),
              HasSubstr("{'descr': '<V2', 'fortran_order': False, 'shape': (3,), }"));
  NDArray::zeros({}, u8).save(path());
  EXPECT_THAT(read_file(path()),
              HasSubstr("{'descr': '|u1', 'fortran_order': False, 'shape': (), }"));
}

TEST_F(Npy, AllVersionsAndWaysToWriteAHeaderAreRead) {
  const std::string two("\x01\x00\x02\x00", 4);
  for (int version : {1, 2, 3}) {
    const NDArray a = read(file(dictionary("<i2", "(2,)"), two, version));
    EXPECT_EQ(describe(a), "i16[2]");
    EXPECT_EQ(a.get(1), 2);
  }
  EXPECT_EQ(
      read(file("{\"shape\": (2L,), \"descr\": \"<i2\", \"fortran_order\": False}", two)).get(1),
      2);
  EXPECT_EQ(read(file("{'fortran_order':False,'shape':(1,2),'descr':'=i2'}", two)).rank(), 2);
  EXPECT_EQ(read(file(dictionary("|V2", "(2,)"), two)).dtype(), bf16);
}

TEST_F(Npy, TheOtherByteOrderIsTurned) {
  const NDArray a =
      read(file(dictionary(">i4", "(2,)"), std::string("\0\0\1\2\xff\xff\xff\xfe", 8)));
  EXPECT_EQ(a.get(0), 258);
  EXPECT_EQ(a.get(1), -2);
  EXPECT_EQ(read(file(dictionary(">f8", "()"), std::string("\x3f\xf8\0\0\0\0\0\0", 8))).get(0),
            1.5);
}

TEST_F(Npy, FortranOrderIsTurned) {
  const NDArray a = read(file(dictionary("|u1", "(2, 3)", "True"), "\1\2\3\4\5\6"));
  EXPECT_EQ(a.extents(), (Extents{2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(a.get(i), (std::vector<double>{1, 3, 5, 2, 4, 6})[i]);
  EXPECT_EQ(read(file(dictionary("|u1", "(3,)", "True"), "\1\2\3")).get(2), 3);
  EXPECT_EQ(read(file(dictionary("|u1", "()", "True"), "\1")).rank(), 0);
}

TEST_F(Npy, BoolsAreZeroOrOne) {
  const NDArray a = read(file(dictionary("|b1", "(3,)"), std::string("\0\1\7", 3)));
  EXPECT_EQ(a.data<std::uint8_t>()[2], 1);
}

TEST_F(Npy, EveryPrefixOfAFileIsAnError) {
  NDArray::random({3, 2}, f32, 1).save(path("whole.npy"));
  const std::string whole = read_file(path("whole.npy"));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_NE(error_of(whole.substr(0, n)), "no error") << n;
  }
  EXPECT_THAT(error_of(whole.substr(0, 140)), HasSubstr("promises 24 bytes"));
  EXPECT_THAT(error_of(whole + "x"), HasSubstr("but there are 25"));
}

TEST_F(Npy, AByteChangedIsAnArrayOfThisSizeOrAnError) {
  NDArray::random({3, 2}, f32, 1).save(path("whole.npy"));
  const std::string whole = read_file(path("whole.npy"));
  for (std::size_t n = 0; n < 128; ++n) {
    for (const char c : {'\0', '9', '(', '\'', '\xff'}) {
      std::string changed = whole;
      changed[n] = c;
      try {
        EXPECT_EQ(read(changed).bytes(), 24);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::User) << e.message;
      }
    }
  }
}

TEST_F(Npy, HostileHeadersAreErrors) {
  const auto error = [&](const std::string& header) { return error_of(file(header, "")); };
  EXPECT_THAT(error_of("PK\3\4"), HasSubstr("does not begin with"));
  EXPECT_THAT(error_of(file(dictionary("<f4", "(1,)"), "", 4)), HasSubstr("version is 4"));
  EXPECT_THAT(error(dictionary("<f4", "(9223372036854775807,)")), HasSubstr("too many bytes"));
  EXPECT_THAT(error(dictionary("<f4", "(99999999999999999999,)")), HasSubstr("too large"));
  EXPECT_THAT(error(dictionary("<f4", "(-1,)")), HasSubstr("no number"));
  EXPECT_THAT(error(dictionary("<f4", "(4294967296, 4294967296)")), HasSubstr("too many bytes"));
  EXPECT_THAT(error(dictionary("<c8", "(1,)")), HasSubstr("of type '<c8'"));
  EXPECT_THAT(error(dictionary("|O", "(1,)")), HasSubstr("of type '|O'"));
  EXPECT_THAT(error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
              HasSubstr("no text in quotes"));
  EXPECT_THAT(error("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}"), HasSubstr("'descr'"));
  EXPECT_THAT(error("{'descr': '<f4', 'shape': (1,)}"), HasSubstr("lacks"));
  EXPECT_THAT(error(dictionary("<f4", "()", "Perhaps")), HasSubstr("neither True nor False"));
  EXPECT_THAT(error(dictionary("<f4", "()") + " + 1"), HasSubstr("goes on"));
  std::string deep = "(";
  for (int i = 0; i < 100; ++i) deep += "1, ";
  EXPECT_THAT(error(dictionary("<f4", deep + ")")), HasSubstr("too many dimensions"));
  EXPECT_THAT(error(dictionary("<f4", "(0, 4294967296, 4294967296)")), HasSubstr("too many"));
  EXPECT_EQ(read(file(dictionary("<f4", "(0, 4294967296)"), "")).size(), 0);
}

TEST_F(Npy, ASaveThatFailsLeavesTheOldFile) {
  const NDArray a = NDArray::full({4}, f32, 1);
  a.save(path());
  EXPECT_THROW(NDArray::full({4}, f32, 2).save(path("no/such/folder.npy")), Error);
  EXPECT_THROW(NDArray().save(path()), Error);
  EXPECT_EQ(NDArray::load(path()).get(0), 1);
  EXPECT_THROW(NDArray::load(path("absent.npy")), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Npy, ALongHeaderIsOfVersionTwo) {
  // Only a reader can meet one: 64 dimensions fit into version 1.
  const std::string padded = dictionary("|u1", "(1,)") + std::string(70000, ' ');
  EXPECT_EQ(read(file(padded, "\5", 2)).get(0), 5);
}

}  // namespace
}  // namespace heddle
