#include "heddle/support/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle {
namespace {

std::string message_of(std::string_view text) {
  try {
    Json::parse(text, "f.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::User);
    return error.message;
  }
  return "no error";
}

TEST(Json, KeepsOrderAndKinds) {
  Json j = Json::object();
  j["z"] = 1;
  j["a"] = Json::array({true, nullptr, 2.0, "text"});
  j["m"] = Json::object({{"k", 0.1}});
  EXPECT_EQ(j.dump(), R"({"z":1,"a":[true,null,2.0,"text"],"m":{"k":0.1}})");
  EXPECT_EQ(Json::parse(j.dump()), j);
  EXPECT_EQ(Json::parse(j.dump(2)), j);
  EXPECT_EQ(Json::array_of(std::vector<int>{1, 2}).dump(), "[1,2]");
  EXPECT_EQ(Json::object({{"a", Json::array()}, {"b", 1}}).dump(2),
            "{\n  \"a\": [],\n  \"b\": 1\n}");
}

TEST(Json, NumbersReadBackToTheSameBits) {
  Rng rng(5);
  for (int i = 0; i < 2000; ++i) {
    const double value =
        rng.normal() * std::pow(10.0, static_cast<double>(rng.uniform_int(-300, 300)));
    EXPECT_EQ(Json::parse(Json(value).dump()).as_double(), value);
  }
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Json::parse(Json(big).dump()).as_int(), big);
  EXPECT_FALSE(Json::parse("3.0").is_int());
  EXPECT_EQ(Json(3).as_double(), 3.0);
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_THROW(Json{std::numeric_limits<std::uint64_t>::max()}, Error);
}

TEST(Json, StringsAreEscaped) {
  const std::string text = "quote\" back\\ \n\t\r \x01 é";
  EXPECT_EQ(Json::parse(Json(text).dump()).as_string(), text);
  EXPECT_EQ(Json("\x01").dump(), "\"\\u0001\"");
}

// A name in Latin-1, a character that was cut in two: what is written can be read again.
TEST(Json, BytesThatAreNoUtf8AreReplaced) {
  const std::string bad = "\xef\xbf\xbd";
  const std::pair<std::string, std::string> all[] = {
      {"caf\xe9", "caf" + bad},        // Latin-1
      {"\xc3", bad},                   // cut off
      {"\xe2\x82x", bad + bad + "x"},  // cut off within
      {"\xa9"
       "a",
       bad + "a"},                                  // a stray continuation
      {"\xc0\xaf", bad + bad},                      // overlong
      {"\xe0\x80\xaf", bad + bad + bad},            // overlong
      {"\xed\xa0\x80", bad + bad + bad},            // a surrogate
      {"\xf4\x90\x80\x80", bad + bad + bad + bad},  // beyond the last code point
      {"\xff\n", bad + "\n"},
      {"\xc3\xa9\xe2\x82\xac\xed\x9f\xbf\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf",
       "\xc3\xa9\xe2\x82\xac\xed\x9f\xbf\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"}};
  for (const auto& [text, readable] : all) {
    EXPECT_EQ(Json::parse(Json(text).dump()).as_string(), readable);
    Json object = Json::object();
    object[text] = 1;
    EXPECT_EQ(Json::parse(object.dump()).members()[0].first, readable);
  }
  Rng rng(5);
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (int64_t c = rng.uniform_int(0, 8); c > 0; --c) {
      text += static_cast<char>(rng.uniform_int(rng.chance(0.5) ? 128 : 0, 255));
    }
    const std::string once = Json::parse(Json(text).dump()).as_string();
    EXPECT_EQ(Json::parse(Json(once).dump()).as_string(), once);
  }
}

TEST(Json, ErrorsSayWhere) {
  EXPECT_EQ(message_of("{\"a\": 1,\n  oops}").substr(0, 11), "f.json:2:3:")
      << message_of("{\"a\": 1,\n  oops}");
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":}", "1 2", "nul", "\"open", "{a:1}", "[1", "\x80"}) {
    EXPECT_EQ(message_of(text).substr(0, 6), "f.json") << text;
    EXPECT_NE(message_of(text), "no error") << text;
  }
  EXPECT_EQ(message_of(R"({"a":1,"b":2,"a":3})"), "f.json: key 'a' appears twice in an object");
  EXPECT_EQ(message_of(std::string(100000, '[')), "f.json: nested deeper than 256 levels");
}

TEST(Json, WrongAccessIsAnErrorAndNotACrash) {
  const Json j = Json::parse(R"({"tile": [1, 2], "name": "x"})");
  EXPECT_THROW(j.at("name").as_int(), Error);
  EXPECT_THROW(j.at("tile").at(2), Error);
  EXPECT_THROW(j.at(0), Error);
  EXPECT_THROW(Json(1).size(), Error);
  EXPECT_EQ(Json(1).find("x"), nullptr);
  try {
    j.at("nmae");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "error: json: missing key 'nmae'\n  help: did you mean 'name'?");
  }
  EXPECT_EQ(j.get_int("trials", 7), 7);
  EXPECT_EQ(j.get_string("name", "y"), "x");
  EXPECT_TRUE(j.get_bool("b", true));
  EXPECT_EQ(j.get_double("d", 0.5), 0.5);
}

TEST(Json, RandomBytesNeverCrash) {
  Rng rng(11);
  const std::string alphabet = "{}[]\",:0123.eE-+ntfalsru\\ \n";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    const std::int64_t length = rng.uniform_int(0, 12);
    for (std::int64_t c = 0; c < length; ++c) {
      text += alphabet[static_cast<std::size_t>(
          rng.uniform_int(0, static_cast<std::int64_t>(alphabet.size()) - 1))];
    }
    try {
      const Json value = Json::parse(text);
      EXPECT_EQ(Json::parse(value.dump()), value) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::User);
    }
  }
}

}  // namespace
}  // namespace heddle
