#include "heddle/support/error.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

Where takes_where(Where at = Where::current()) { return at; }

TEST(Error, RendersPlaceMessageAndHelp) {
  const Error error(ErrorKind::User, "extent 12 is odd", {"model.cpp", 42}, "use 16");
  EXPECT_STREQ(error.what(), "model.cpp:42: error: extent 12 is odd\n  help: use 16");
  EXPECT_EQ(error.message, "extent 12 is odd");
  EXPECT_EQ(error.where.line, 42);
}

TEST(Error, SkipsAbsentParts) {
  EXPECT_STREQ(Error(ErrorKind::Runtime, "no memory").what(), "error: no memory");
}

TEST(Error, WhereIsTheLineOfTheCaller) {
  const Where at = takes_where();
  EXPECT_EQ(at.line, __LINE__ - 1);
  EXPECT_NE(std::string(at.file).find("error_test.cpp"), std::string::npos);
  EXPECT_EQ(to_string(Where{}), "");
}

TEST(Error, ThrowFunctionsSetTheKind) {
  auto kind_of = [](auto thrower) {
    try {
      thrower();
    } catch (const Error& error) {
      return error.kind;
    }
    return ErrorKind::Internal;
  };
  EXPECT_EQ(kind_of([] { throw_user_error("x"); }), ErrorKind::User);
  EXPECT_EQ(kind_of([] { throw_runtime_error("x"); }), ErrorKind::Runtime);
}

TEST(Error, IcheckNamesTheConditionAndAsksForAReport) {
  HEDDLE_ICHECK(1 + 1 == 2, "never");
  try {
    HEDDLE_ICHECK(1 + 1 == 3, "sum of " + std::to_string(2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::Internal);
    const std::string text = error.what();
    EXPECT_NE(text.find("internal error: sum of 2 (violated: 1 + 1 == 3)"), std::string::npos);
    EXPECT_NE(text.find("please report"), std::string::npos);
    EXPECT_NE(text.find("error_test.cpp:"), std::string::npos);
  }
}

}  // namespace
}  // namespace heddle
