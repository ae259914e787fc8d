// Messages come back as they were written, and what is none is refused with the names of message and
// key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "measure/message_samples.h"

namespace heddle {
namespace {

using namespace measuring;
using ::testing::HasSubstr;

/// The message as whoever gets it reads it, written again.
Json rewritten(const Json& message) {
  const auto again = [&](const auto& m) { return encode(m, envelope_of(message)); };
  // Two kinds are used twice.
  if (codec::is<Compile>(message) && message.contains("job"))
    return again(decode<CompileJob>(message));
  if (codec::is<RoundEnd>(message) && message.contains("took"))
    return again(decode<RoundEnd>(message));
  return std::visit(again, decode_any<testing::AnyMessage>(message));
}

template <class Work>
std::string refusal(Work work) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << e.what();
    return e.message;
  }
  return "";
}

TEST(Messages, ComeBackAsTheyWereWritten) {
  for (const Json& message : testing::sample_messages())
    EXPECT_EQ(rewritten(Json::parse(message.dump())), message) << message.dump();
}

TEST(Messages, WhatIsWrittenIsWhatIsSaid) {
  EXPECT_EQ(encode(Turn{3}, {.id = 8}).dump(), R"({"do":"turn","id":8,"candidate":3})");
  EXPECT_EQ(encode(Failed{MeasureError::Timeout, "late"}).dump(),
            R"({"is":"failed","error":"timeout","message":"late"})");
}

TEST(Messages, AHelloOfAnotherVersionIsRefused) {
  const Hello hello{.kind = WorkerKind::Cuda, .node = "llvm"};
  const Hello back = hello_from(encode(hello));
  EXPECT_EQ(back.kind, WorkerKind::Cuda);
  EXPECT_EQ(back.node, "llvm");
  EXPECT_EQ(to_string(back.measure), to_string(MeasureProtocol{}));
  for (const char* key : {"version", "protocol"}) {
    Json other = encode(hello);
    other[key] = key == std::string("version") ? Json("0.0.1") : Json(1);
    other["a key of that version"] = Json(1);
    EXPECT_THAT(refusal([&] { hello_from(other); }), HasSubstr("the tuner is of Heddle"));
  }
}

TEST(Messages, ARefusalNamesMessageAndKey) {
  const Json steps = Json::object();
  const auto said = [](const char* text) {
    return refusal([&] { decode_any<testing::AnyMessage>(Json::parse(text)); });
  };
  EXPECT_EQ(said(R"({"do": "turn"})"), "message 'turn': key 'candidate' is missing");
  EXPECT_EQ(said(R"({"do": "turn", "candidate": "x"})"),
            "message 'turn': key 'candidate': json: expected an integer, found a string");
  EXPECT_EQ(said(R"({"do": "turn", "candidate": 4294967296})"),
            "message 'turn': key 'candidate': 4294967296 is out of its range");
  EXPECT_EQ(said(R"({"do": "turn", "candidate": 1, "candidates": 1})"),
            "message 'turn': key 'candidates' is not known");
  EXPECT_EQ(said(R"({"do": "reference", "task": 1, "by": "magic"})"),
            "message 'reference': key 'by': there is no reference 'magic'");
  EXPECT_EQ(said(R"({"do": "measure", "task": 1, "seconds": 1, "candidates": [{"trial": 1}]})"),
            "message 'measure': key 'candidates': element 0: key 'steps' is missing");
  EXPECT_THAT(said(R"({"do": "measure", "task": 1, "seconds": 1e9, "candidates": []})"),
              HasSubstr("a request that may take"));
  EXPECT_THAT(said(R"({"is": "result", "trial": 1, "seconds": [0.0]})"),
              HasSubstr("a time that is not above 0"));
  EXPECT_THAT(said(R"({"is": "result", "trial": 1, "seconds": []})"),
              HasSubstr("without times and without an error"));
  EXPECT_THAT(said(R"({"do": "explode"})"), HasSubstr("a message 'explode' where '"));
  EXPECT_THAT(said(R"({"do": 7})"), HasSubstr("a message without a kind where '"));
  EXPECT_THAT(said(R"([])"), HasSubstr("a message without a kind where '"));
  EXPECT_EQ(refusal([] { envelope_of(Json::array()); }), "a message is an object");
}

/// A value that is none of the key's, or one that is.
Json hostile(Rng& rng) {
  return rng.choose(std::vector<Json>{Json(), Json(true), Json(-1), Json(int64_t{1} << 62),
                                      Json(0.5), Json("x"), Json::array(), Json::array({Json()}),
                                      Json::object(), Json::object({{"steps", Json()}})});
}

TEST(Messages, HostileOnesAreNeverMoreThanAnError) {
  Rng rng(11);
  const std::vector<Json> all = testing::sample_messages();
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    Json message = rng.choose(all);
    const std::string key = rng.choose(message.members()).first;
    if (rng.chance(0.2)) {
      message[key + "s"] = hostile(rng);
    } else {
      message[key] = hostile(rng);
    }
    refused += !refusal([&] { rewritten(message); }).empty();
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace heddle
