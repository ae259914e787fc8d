// Constants of rules: the table, and files of constants.
#include "heddle/target/rule_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/support/error.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

const ConstantInfo& info(std::string_view kind, std::string_view name) {
  for (const ConstantInfo& i : constants_of(kind)) {
    if (i.name == name) return i;
  }
  throw_internal_error("no constant " + std::string(name));
}

TEST(RuleConstants, EachCanBeSetToTheEndsOfItsRangeAndNoFurther) {
  for (const char* kind : {"llvm", "cuda"}) {
    for (const ConstantInfo& i : constants_of(kind)) {
      RuleConstants c;
      for (const double end : {i.low, i.high}) {
        set_value(&c, i, end);
        EXPECT_EQ(value_of(c, i), end) << i.name;
      }
      EXPECT_THROW(set_value(&c, i, i.low - 1), Error) << i.name;
      EXPECT_THROW(set_value(&c, i, i.high + 1), Error) << i.name;
      EXPECT_FALSE(i.unit.empty()) << i.name;
      EXPECT_FALSE(i.about.empty()) << i.name;
    }
  }
}

TEST(RuleConstants, AFileHasWhatDiffers) {
  RuleConstants c;
  set_value(&c, info("llvm", "far_bytes"), 7.5);
  set_value(&c, info("llvm", "rows_a_core"), 4.4);
  EXPECT_EQ(c.cpu.rows_a_core, 4);
  EXPECT_EQ(moved_text(c, "llvm"), "rows_a_core 4 (16 by default), far_bytes 7.5 (6 by default)");
  const std::string text = constants_json(c, "llvm", Json::object()).dump();
  EXPECT_EQ(parse_constants(text, "llvm", "f"), c);
  EXPECT_EQ(moved_text(parse_constants(text, "llvm", "f"), "cuda"), "");
}

TEST(RuleConstants, AFileThatIsWrongIsAnErrorThatNamesIt) {
  const auto why = [](const std::string& text) {
    try {
      (void)parse_constants(text, "llvm", "x.constants");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      return e.message + " / " + e.help;
    }
    return std::string("nothing");
  };
  const auto with = [](const std::string& values) {
    return R"({"heddle_constants": 1, "kind": "llvm", "constants": )" + values + "}";
  };
  EXPECT_EQ(why(with("{}")), "nothing");
  EXPECT_THAT(why("{"), HasSubstr("x.constants"));
  EXPECT_THAT(why("[]"), HasSubstr("x.constants: constants are an object"));
  EXPECT_THAT(why(R"({"heddle_constants": 2, "kind": "llvm", "constants": {}})"),
              HasSubstr("format 1"));
  EXPECT_THAT(why(R"({"heddle_constants": 1, "kind": "cuda", "constants": {}})"),
              HasSubstr("not for targets of kind 'llvm'"));
  EXPECT_THAT(why(R"({"heddle_constants": 1, "kind": "llvm", "constants": {}, "x": 1})"),
              HasSubstr("no key 'x'"));
  EXPECT_THAT(why(with("[]")), HasSubstr("'constants'"));
  EXPECT_THAT(why(with(R"({"far_byte": 7})")), HasSubstr("far_bytes"));
  EXPECT_THAT(why(with(R"({"far_bytes": "7"})")), HasSubstr("is no number"));
  EXPECT_THAT(why(with(R"({"rows_a_core": 4.5})")), HasSubstr("is no whole number"));
  EXPECT_THAT(why(with(R"({"far_bytes": 0.5})")), HasSubstr("cannot be 0.5"));
}

}  // namespace
}  // namespace heddle
