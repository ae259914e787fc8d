// records: each subcommand on small logs, and bench beside a record.
#include "heddle/records/record_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "heddle/records/database.h"
#include "records/transfer_races.h"
#include "run_command.h"
#include "source_dir.h"
#include "subjects/subjects.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A record of the subject for this machine with these threads, which was not really measured.
Record record(const std::string& subject, double seconds, int threads = 1, size_t variant = 0) {
  Target target = Target::host();
  target.cores = threads;
  const ComputeDag dag(cli::make_problem(subject, f32).outputs);
  const Template t = make_template(dag, target);
  Config config = t.default_config();
  for (size_t k = 0; k < config.values.size() && variant > 0; ++k) {
    for (const int64_t value : t.knobs()[k].values) {
      Config other = config;
      other.values[k] = value;
      if (value == config.values[k] || !t.why_invalid(other).empty()) continue;
      config = other;
      --variant;
      break;
    }
  }
  Record r = make_record(subject, t, config);
  r.seconds = {seconds};
  r.protocol = "warm repeats=1";
  return r;
}

Record failure(const std::string& subject) {
  Record r = record(subject, 1);
  r.seconds.clear();
  r.error = MeasureError::Timeout;
  return r;
}

class Records : public ::testing::Test {
 protected:
  const std::string folder_ = temporary("records");
  Records() { std::filesystem::create_directories(folder_); }
  ~Records() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string log(const std::string& name, const std::vector<Record>& records,
                  const std::string& more = "") const {
    std::ofstream(path(name)) << to_lines(records) << more;
    return path(name);
  }
  static std::vector<double> times(const std::string& file) {
    std::vector<double> out;
    for (const Record& r : read_records(file).records) out.push_back(r.median());
    return out;
  }
};

TEST_F(Records, ListShowsATableAndJson) {
  const std::string file = log("a.jsonl", {record("matmul:8x8x8", 2e-6), failure("matmul:9x8x8"),
                                           record("softmax:4x8", 1e-3)});
  const CommandResult all = heddle_command("records list " + file);
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.err, IsEmpty());
  for (const char* text : {"matmul:8x8x8", "2.00 us", "timeout", "softmax:4x8", "a.jsonl:3",
                           "complex_reduction", "3 records"}) {
    EXPECT_THAT(all.out, HasSubstr(text));
  }
  const CommandResult some = heddle_command("records list --subject matmul --json " + file);
  EXPECT_EQ(some.status, 0) << some.err;
  const Json j = Json::parse(some.out);
  ASSERT_EQ(j.size(), 2u);
  EXPECT_EQ(j.at(0).at("median_seconds").as_double(), 2e-6);
  EXPECT_EQ(j.at(1).at("error").as_string(), "timeout");
}

TEST_F(Records, WithoutFilesTophubIsListed) {
  const std::string file = log("hub.jsonl", {record("matmul:8x8x8", 2e-6)});
  const CommandResult r = heddle_command("records list", "HEDDLE_TOPHUB=off:" + file);
  EXPECT_THAT(r.out, HasSubstr("hub.jsonl:1"));
}

TEST_F(Records, BrokenLinesAreWarnings) {
  const std::string file = log("a.jsonl", {record("matmul:8x8x8", 2e-6)}, "{\"v\":1,\n{\"v\"");
  const CommandResult r = heddle_command("records list " + file);
  EXPECT_EQ(r.status, 0);
  EXPECT_THAT(r.out, HasSubstr("1 record\n"));
  EXPECT_THAT(r.err, HasSubstr("warning: " + file + ":2: column "));
  EXPECT_THAT(r.err, HasSubstr("warning: " + file + ":3: torn last line skipped"));
}

TEST_F(Records, BestOfEachDeclarationAndTarget) {
  const std::string a = log("a.jsonl", {record("matmul:8x8x8", 3e-6), record("matmul:8x8x8", 2e-6),
                                        record("matmul:8x8x8", 5e-6, 2), failure("softmax:4x8")});
  const std::string b = log("b.jsonl", {record("matmul:8x8x8", 1e-6)});
  EXPECT_THAT(heddle_command("records best " + a + " " + b).out, HasSubstr("2 records"));
  const CommandResult r = heddle_command("records best " + a + " " + b + " -o " + path("o.jsonl"));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("2 records of 5"));
  EXPECT_EQ(times(path("o.jsonl")), (std::vector<double>{1e-6, 5e-6}));
}

TEST_F(Records, MergeDropsExactDuplicates) {
  const Record one = record("matmul:8x8x8", 3e-6), two = record("matmul:8x8x8", 2e-6);
  const std::string a = log("a.jsonl", {one, two}), b = log("b.jsonl", {two, one, two});
  const CommandResult r = heddle_command("records merge " + a + " " + b + " -o " + a);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("2 records, 3 duplicates dropped"));
  EXPECT_EQ(read_file(a), to_lines({one, two}));
}

TEST_F(Records, PruneKeepsTheBestInTheirOrder) {
  const std::string a = log(
      "a.jsonl", {record("matmul:8x8x8", 3e-6), record("matmul:8x8x8", 4e-6),
                  failure("matmul:8x8x8"), record("matmul:8x8x8", 1e-6), record("softmax:4x8", 1)});
  const CommandResult r = heddle_command("records prune " + a + " --keep 2 -o " + a);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("3 records of 2 tasks; dropped 2 (1 slower, 1 failed)"));
  EXPECT_EQ(times(a), (std::vector<double>{3e-6, 1e-6, 1}));
}

// A log that a newer Heddle has written to as well, tidied up by this one.
TEST_F(Records, RewritingKeepsLinesOfANewerVersion) {
  const std::string newer = R"({"v":3, "what": "only a newer one knows"})";
  const std::vector<Record> two = {record("matmul:8x8x8", 3e-6), record("matmul:8x8x8", 1e-6)};
  const std::string a = path("a.jsonl");
  const std::pair<std::string, std::string> all[] = {
      {"merge " + a + " " + a, to_lines(two)},
      {"prune " + a + " --keep 1", to_lines({two[1]})},
      {"upgrade " + a, to_lines(two)}};
  for (const auto& [command, records] : all) {
    log("a.jsonl", {two[0]}, newer + "\n{\"v\":1,\"tor\n" + to_lines({two[1]}));
    const CommandResult r = heddle_command("records " + command + " -o " + a);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("kept 1 line that this Heddle cannot read")) << command;
    EXPECT_THAT(r.err, HasSubstr(a + ":2: it is of version 3")) << command;
    EXPECT_EQ(read_file(a), records + newer + "\n") << command;  // and the torn one is gone
  }
  // Nothing but such lines, the last without its newline.
  const std::string b = log("b.jsonl", {}, newer);
  EXPECT_EQ(heddle_command("records merge " + b + " -o " + b).status, 0);
  EXPECT_EQ(read_file(b), newer + "\n");
  EXPECT_EQ(heddle_command("records list " + b).status, 2);
}

TEST_F(Records, UpgradeFindsWhatVersion0Lacked) {
  std::vector<Record> now = {record("matmul:8x8x8", 3e-6), record("softmax:4x8", 1e-6)};
  std::string old;
  for (Record& r : now) {
    if (r.subject[0] == 's') r.subject = "the user's own";
    Json j = Json::object();
    const Json whole = r.to_json();
    for (const auto& [key, value] : whole.members()) {
      if (key != "shape_class" && key != "extents") j[key] = value;
    }
    j["v"] = 0;
    old += j.dump() + "\n";
  }
  std::ofstream(path("old.jsonl")) << old;
  const CommandResult r =
      heddle_command("records upgrade " + path("old.jsonl") + " -o " + path("new.jsonl"));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("2 records of version 2\n1 record without a shape class"));
  const ReadResult read = read_records(path("new.jsonl"));
  ASSERT_EQ(read.records.size(), 2u);
  EXPECT_EQ(read.records[0].to_json().dump(), now[0].to_json().dump());
  EXPECT_EQ(read.records[1].shape_class, "");
}

TEST_F(Records, WhyTellsHitsAndMisses) {
  const std::string a = log("a.jsonl", {record("matmul:8x8x8", 3e-6)});
  const auto why = [&](const std::string& subject) {
    const CommandResult r = heddle_command("records why " + subject + " " + a + " --threads 1");
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
  };
  EXPECT_THAT(why("matmul:8x8x8"), HasSubstr("hit, record of " + a + ":1, 3.00 us"));
  EXPECT_THAT(why("matmul:8x8x16"),
              HasSubstr("no hit, there are records of this structure, but of other extents; "
                        "nearest first: matmul:8x8x8"));
  EXPECT_THAT(why("matmul:8x8x8 --dtype f64"), HasSubstr("of this structure: other stages"));
  const CommandResult r = heddle_command("records why matmul:8x8x8 --threads 2",
                                         "HEDDLE_TOPHUB=off HEDDLE_LOG_FILE=" + a);
  EXPECT_THAT(r.out, StartsWith("looked in:\n  " + a));
  EXPECT_THAT(r.out, HasSubstr("no hit, there are records of this declaration, but none for"));
}

TEST_F(Records, BadInputExitsTwoAndHelps) {
  const std::string a = log("a.jsonl", {record("matmul:8x8x8", 3e-6)});
  const std::string text = path("text.txt");
  std::ofstream(text) << "not\na log\n";
  const std::pair<std::string, const char*> all[] = {
      {"records", "subcommand"},
      {"records lsit", "did you mean 'list'?"},
      {"records list /nowhere.jsonl", "there is no file '/nowhere.jsonl'"},
      {"records list " + folder_, "is a folder"},
      {"records list " + text, "has no record that can be read"},
      {"records merge " + a, "--output is required"},
      {"records prune " + a + " -o " + a, "--keep is required"},
      {"records prune " + a + " --keep 0 -o " + a, "--keep"},
      {"records best " + a + " -o /nowhere/o.jsonl", "name a file in a folder that is there"},
      {"records why matmull:8x8x8", "did you mean 'matmul'?"},
      {"records list --subjct x " + a, "did you mean '--subject'?"}};
  for (const auto& [command, says] : all) {
    const CommandResult r = heddle_command(command);
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_THAT(r.err, HasSubstr(says)) << command;
    EXPECT_THAT(r.err, HasSubstr("help: ")) << command;
  }
  EXPECT_EQ(times(a), (std::vector<double>{3e-6}));  // untouched
  const CommandResult help = heddle_command("records --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
}

// "static" is the analytic rule even where there is a record; the record's schedule is "tuned".
TEST_F(Records, BenchTimesTunedBesideStatic) {
  const std::string bench =
      "bench matmul:24x24x24 matmul:16x24x24 --peers none --threads 1 "
      "--time 0.01 --json -";
  const std::string a = log("a.jsonl", {record("matmul:24x24x24", 3e-6, 1, 2)});
  const CommandResult r = heddle_command(bench, "HEDDLE_TOPHUB=off HEDDLE_LOG_FILE=" + a);
  ASSERT_EQ(r.status, 0) << r.err;
  for (const char* text : {"\ntuned ", "record of ", "tuned agrees with naive", "tuned ms"}) {
    EXPECT_THAT(r.err, HasSubstr(text));
  }
  const Json results = Json::parse(r.out).at("results");
  EXPECT_GT(results.at(0).at("times_ms").at("tuned").as_double(), 0);
  EXPECT_GT(results.at(0).at("times_ms").at("static").as_double(), 0);
  EXPECT_FALSE(results.at(1).at("times_ms").contains("tuned"));
  EXPECT_THAT(heddle_command(bench, "HEDDLE_TOPHUB=off").err, Not(HasSubstr("tuned")));
}

TEST_F(Records, ExplainSaysWhereTheScheduleComesFrom) {
  const std::string a = log("a.jsonl", {record("matmul:24x24x24", 3e-6)});
  const std::string explain = "explain matmul:24x24x24 --show schedule --threads 1";
  EXPECT_THAT(heddle_command(explain, "HEDDLE_LOG_FILE=" + a).out,
              StartsWith("# record of " + a + ":1, 3.00 us"));
  EXPECT_THAT(heddle_command(explain).out, StartsWith("# analytic rule of"));
}

TEST_F(Records, RacesOnNearCasesAreAtTheNumbersOfThreadsGiven) {
  const std::string races = path("races"),
                    a = log("a.jsonl", {record("matmul:48x64x32", 1e-5, 1, 2)});
  const CommandResult r =
      heddle_command("records transfers " + a + " --threads 2 --time 0.01 -o " + races,
                     "HEDDLE_TOPHUB=" + source_dir() + "/tophub HEDDLE_LOG_FILE=");
  ASSERT_EQ(r.status, 0) << r.err;
  const records::Transfers made = records::parse_transfers(read_file(races), races);
  ASSERT_FALSE(made.races.empty()) << r.out << r.err;
  for (const records::Transfer& t : made.races) EXPECT_EQ(t.target.cores, 2);
}

// Each of them still makes a schedule: of the template, or of its steps alone, by the names that
// they had when it was made.
TEST(ShippedRecords, MakeSchedules) {
  size_t files = 0, replayed = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/tophub")) {
    if (file.path().extension() != ".jsonl") continue;
    ++files;
    RecordDatabase hub;
    EXPECT_THAT(hub.add_file(file.path()), IsEmpty());
    for (const Record& r : hub.records()) {
      bool declared = false;
      for (const DataType dtype : {f32, f16, bf16, i8}) {
        const ComputeDag dag(cli::make_problem(r.subject, dtype).outputs);
        if (dag.structural_hash() != r.structural_hash) continue;
        declared = true;
        EXPECT_THAT(schedule_of(r, dag, r.target).provenance, StartsWith("record of")) << r.subject;
        if (r.alternative.empty()) {
          EXPECT_NO_THROW(replay(r, dag, r.target)) << r.subject;
          ++replayed;
        }
        break;
      }
      EXPECT_TRUE(declared) << r.subject << ": no declaration has its hash any more";
    }
  }
  EXPECT_GT(files, 0u);
  EXPECT_GT(replayed, 0u);
}

}  // namespace
}  // namespace heddle
