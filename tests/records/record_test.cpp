// A record as JSON, and the schedule that it stands for.
#include <set>
#include <sstream>

#include "records/records_testing.h"
#include "source_dir.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Json without(const Json& json, const std::string& key) {
  Json out = Json::object();
  for (const auto& [name, value] : json.members()) {
    if (name != key) out[name] = value;
  }
  return out;
}
Json with(Json json, const std::string& key, Json value) {
  json[key] = std::move(value);
  return json;
}

TEST(Record, RoundTrips) {
  const Record r = record_of(matmul(64, 48, 32), test_target());
  const std::string line = r.to_json().dump();
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Record back = Record::from_json(Json::parse(line));
  EXPECT_EQ(back.structural_hash, ComputeDag({matmul(64, 48, 32)}).structural_hash());
  EXPECT_EQ(back.to_json().dump(), line);
  EXPECT_EQ(back.target, r.target);
  EXPECT_EQ(back.template_version, r.template_version);
  EXPECT_EQ(back.seed, r.seed);
  EXPECT_EQ(back.seconds, r.seconds);
  EXPECT_EQ(back.extents, r.extents);
  EXPECT_EQ(back.unix_time, r.unix_time);
  EXPECT_GT(back.unix_time, 1700000000);
  EXPECT_EQ(back.flops, 2 * 64 * 48 * 32);
  EXPECT_EQ(back.calls, 1);
  EXPECT_EQ(Record::from_json(with(r.to_json(), "calls", 2.5)).to_json().at("calls").as_double(),
            2.5);
  EXPECT_TRUE(back.ok());
}

TEST(Record, RoundTripsFailures) {
  for (const MeasureError e :
       {MeasureError::Invalid, MeasureError::Compile, MeasureError::Crash, MeasureError::Timeout,
        MeasureError::OutOfMemory, MeasureError::WrongAnswer, MeasureError::Rejected,
        MeasureError::Cancelled}) {
    const Record r = failed(record_of(matmul(8, 8, 8), test_target()), e);
    const Record back = Record::from_json(Json::parse(r.to_json().dump()));
    EXPECT_EQ(back.error, e);
    EXPECT_EQ(back.message, "signal 11 (\"SIGSEGV\")");
    EXPECT_FALSE(back.ok());
    EXPECT_TRUE(std::isinf(back.median()));
    EXPECT_EQ(measure_error_from_string(to_string(e)), e);
  }
}

TEST(Record, TheExampleOfTheDocumentationIsOne) {
  const std::string text = read_file(source_dir() + "/docs/reference/records.md");
  const size_t begin = text.find("```json\n") + 8, end = text.find("```", begin);
  const Json json = Json::parse(text.substr(begin, end - begin));
  const Record r = Record::from_json(json);
  EXPECT_EQ(r.to_json().dump(), json.dump());
  const ComputeDag dag({matmul(16, 8, 32)});
  EXPECT_EQ(r.structural_hash, dag.structural_hash());
  EXPECT_EQ(r.shape_class, internal::shape_class_of(dag));
  EXPECT_EQ(r.extents, dag.extents());
}

TEST(Record, TheDocumentationHasEveryKeyAndTheVersion) {
  const std::string text = read_file(source_dir() + "/docs/reference/records.md");
  EXPECT_THAT(text, HasSubstr("version of this schema: " + std::to_string(Record::kVersion) + "."));
  Record r = failed(record_of(matmul(8, 8, 8), test_target()), MeasureError::Crash);
  r.alternative = "winograd(tile=4)@3";
  r.bytes = r.base_seconds = r.predicted = 1;
  r.calls = 2;
  r.declaration = Json::object();
  std::set<std::string> keys, rows;
  const Json json = r.to_json();
  for (const auto& [key, value] : json.members()) keys.insert(key);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) rows.insert(line.substr(3, line.find('`', 3) - 3));
  }
  EXPECT_EQ(rows, keys);
}

TEST(Record, VerdictsOfVersionOneWereTheFirstWordsOfTheProtocol) {
  const std::string text = read_file(source_dir() + "/docs/reference/records.md");
  const size_t begin = text.find("```json\n") + 8, end = text.find("```", begin);
  Json json = Json::parse(text.substr(begin, end - begin));
  json["v"] = Json(1);
  const auto read = [&](const char* protocol) {
    json["protocol"] = Json(protocol);
    const Record r = Record::from_json(json);
    return std::string(to_string(r.verdict)) + ": " + r.protocol;
  };
  EXPECT_EQ(read("race won warm repeats=5"), "won: warm repeats=5");
  EXPECT_EQ(read("race won network"), "won: network");
  EXPECT_EQ(read("race cold repeats=3"), "raced: cold repeats=3");
  EXPECT_EQ(read("race"), "raced: ");
  EXPECT_EQ(read("chosen by size"), "chosen: by size");
  EXPECT_EQ(read("warm repeats=5"), "screened: warm repeats=5");
}

TEST(Record, MedianOfSamples) {
  Record r;
  EXPECT_TRUE(std::isinf(r.median()));
  r.seconds = {3, 1, 2};
  EXPECT_EQ(r.median(), 2);
  r.seconds = {4, 1, 2, 3};
  EXPECT_EQ(r.median(), 2.5);
}

TEST(Record, HashesAreTextInHexadecimal) {
  Record r = record_of(matmul(8, 8, 8), test_target());
  r.structural_hash = 0xff00000000000001;
  EXPECT_EQ(r.to_json().at("hash").as_string(), "ff00000000000001");
  EXPECT_EQ(Record::from_json(r.to_json()).structural_hash, 0xff00000000000001u);
}

TEST(Record, SaysWhatIsMissingOrWrong) {
  const Json good = record_of(matmul(8, 8, 8), test_target()).to_json();
  const auto error = [](const Json& j) { return error_of([&] { Record::from_json(j); }); };
  EXPECT_EQ(error(good), "no error");
  EXPECT_EQ(error(Json::array()), "a record is a JSON object");
  for (const char* key : {"v", "hash", "shape_class", "extents", "target", "template_version",
                          "config", "steps", "seconds", "error", "verdict"}) {
    EXPECT_EQ(error(without(good, key)), "key '" + std::string(key) + "' is missing");
  }
  EXPECT_EQ(error(with(good, "v", 3)),
            "it is of version 3, and this Heddle reads up to 2\n  help: read it with the Heddle "
            "that wrote it, or a newer one");
  EXPECT_THAT(error(with(good, "hash", 7)), StartsWith("key 'hash': json: expected a string"));
  EXPECT_EQ(error(with(good, "hash", "xyz")),
            "key 'hash': 'xyz' is not a hexadecimal number of 64 bits");
  EXPECT_THAT(error(with(good, "hash", "10000000000000000")), HasSubstr("of 64 bits"));
  EXPECT_EQ(error(with(good, "calls", 0)), "key 'calls': it is 0; it must be above 0");
  EXPECT_THAT(error(with(good, "target", "llvm -mcpu=hasswell")),
              HasSubstr("did you mean 'haswell'?"));
  EXPECT_THAT(error(with(good, "error", "crashh")), HasSubstr("did you mean 'crash'?"));
  EXPECT_EQ(
      error(with(good, "verdict", "lost")),
      "key 'verdict': there is no verdict 'lost'\n  help: one of: screened, raced, chosen, won");
  EXPECT_THAT(error(with(good, "config", Json::array())), StartsWith("key 'config'"));
  EXPECT_THAT(error(with(good, "seconds", Json::array({-1.0}))), HasSubstr("above 0"));
  EXPECT_EQ(error(with(good, "seconds", Json::array())),
            "key 'seconds': there is no time, and no error says why");
  EXPECT_EQ(error(with(good, "an unknown key", 1)), "no error");
}

TEST(Record, ReadsVersion0) {
  const Record r = record_of(matmul(8, 8, 8), test_target());
  const Json old = with(without(without(r.to_json(), "shape_class"), "extents"), "v", 0);
  const Record back = Record::from_json(old);
  EXPECT_EQ(back.structural_hash, r.structural_hash);
  EXPECT_EQ(back.shape_class, "");
  EXPECT_TRUE(back.extents.empty());
  EXPECT_EQ(back.to_json().at("v").as_int(), 2);
}

TEST(Record, AnIllegalConfigHasNoSteps) {
  const Template t = make_template(ComputeDag({matmul(8, 8, 8)}), test_target());
  Config c = t.default_config();
  c.values[0] = 12345;
  EXPECT_TRUE(make_record("x", t, c).steps.empty());
}

TEST(Record, FingerprintsNameMachineAndBuild) {
  EXPECT_THAT(internal::machine_fingerprint(), HasSubstr("L2 "));
  EXPECT_THAT(internal::build_fingerprint(), StartsWith("0."));
}

TEST(ScheduleOf, TheTemplateWhereItIsTheSame) {
  const ComputeDag dag({matmul(64, 48, 32)});
  Record r = record_of(dag.outputs()[0], test_target());
  r.origin = "a.jsonl:7";
  const Json steps = r.steps.at("steps");
  r.steps = Json::object();  // not looked at
  const Schedule s = schedule_of(r, dag, test_target());
  EXPECT_EQ(s.to_json().at("steps"), steps);
  EXPECT_EQ(s.provenance, "record of a.jsonl:7, 1.00 ms");
}

TEST(ScheduleOf, TheStepsWhereTheTemplateHasChanged) {
  const ComputeDag dag({matmul(64, 48, 32)});
  Record r = record_of(dag.outputs()[0], test_target());
  r.machine = "here";
  r.template_version ^= 1;
  r.config = Json::object({{"no such knob", 1}});
  const Schedule s = schedule_of(r, dag, test_target());
  EXPECT_EQ(s.to_json().at("steps"), r.steps.at("steps"));
  EXPECT_EQ(s.provenance, "record of here, 1.00 ms, replayed");
}

TEST(ScheduleOf, TheStepsWhereTheConfigIsNoLongerOffered) {
  const ComputeDag dag({matmul(64, 48, 32)});
  Record r = record_of(dag.outputs()[0], test_target());
  r.config[r.config.members()[0].first] = 12345;
  EXPECT_THAT(schedule_of(r, dag, test_target()).provenance, HasSubstr("replayed"));
}

TEST(ScheduleOf, SaysWhyNeitherWorks) {
  const ComputeDag dag({matmul(64, 48, 32)});
  Record r = record_of(dag.outputs()[0], test_target());
  r.template_version ^= 1;
  r.steps["steps"].push_back(Json::parse(R"(["split", 99, [0], [4], [100, 101]])"));
  const std::string why = error_of([&] { schedule_of(r, dag, test_target()); });
  EXPECT_THAT(why, HasSubstr("the record of 'matmul' does not apply: template "));
  EXPECT_THAT(why, HasSubstr("has changed since; step "));
  r.steps = Json::object();
  EXPECT_THAT(error_of([&] { schedule_of(r, dag, test_target()); }),
              HasSubstr("this is no schedule of version 1"));
}

}  // namespace
}  // namespace heddle::testing
