// The files of tophub, their precedence, and their effect on create_schedule.
#include "heddle/records/tophub.h"

#include "records/records_testing.h"
#include "source_dir.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Tophub : public ::testing::Test {
 protected:
  const Folder folder_;
  const Variable no_tophub_{"HEDDLE_TOPHUB", "off"}, no_log_{"HEDDLE_LOG_FILE", ""};
  const Tensor tensor_ = matmul(40, 48, 56);
  const uint64_t hash_ = ComputeDag({tensor_}).structural_hash();
  const Target target_ = test_target();

  ~Tophub() override { reload_tophub(); }

  /// A log with one record of `tensor_`.
  std::string log(const std::string& name, double seconds = 1e-3) const {
    const std::string path = folder_ / name;
    write(path, to_lines({record_of(tensor_, target_, seconds, name)}));
    return path;
  }
  std::string best() const {
    const Record* r = tophub()->best(hash_, target_);
    return r != nullptr ? r->subject : "none";
  }
};

TEST_F(Tophub, OffMeansNoShippedRecords) {
  EXPECT_THAT(tophub_files(), IsEmpty());
  EXPECT_EQ(best(), "none");
}

// In the build folder a link leads to the source tree's.
TEST_F(Tophub, TheShippedFolderIsFoundFromTheLibrary) {
  const std::string shipped = source_dir() + "/tophub";
  const std::string file = shipped + "/test-" + std::to_string(::getpid()) + ".jsonl";
  write(file, to_lines({record_of(tensor_, target_, 1e-3, "shipped")}));
  {
    const Variable on("HEDDLE_TOPHUB", "");
    EXPECT_THAT(tophub_files(), ::testing::Contains(file));
    EXPECT_EQ(best(), "shipped");
    const Variable named("HEDDLE_TOPHUB", log("named.jsonl", 9));
    EXPECT_EQ(best(), "named.jsonl");
  }
  ::unlink(file.c_str());
  EXPECT_EQ(best(), "none");
}

TEST_F(Tophub, FilesAndFoldersAreNamedByAVariable) {
  std::filesystem::create_directories(folder_ / "hub");
  const std::string b = log("hub/b.jsonl"), a = log("hub/a.jsonl"), c = log("c.jsonl");
  write(folder_ / "hub/README.md", "no records");
  const Variable hub("HEDDLE_TOPHUB", "off:" + (folder_ / "hub") + "::" + c + ":/nowhere.jsonl");
  EXPECT_THAT(tophub_files(), ElementsAre(a, b, c));
  EXPECT_EQ(tophub()->records().size(), 3u);
  EXPECT_EQ(best(), "c.jsonl");
}

TEST_F(Tophub, TheUsersLogOverridesWhateverItsTimes) {
  const Variable hub("HEDDLE_TOPHUB", "off:" + log("named.jsonl", 1e-3));
  EXPECT_EQ(best(), "named.jsonl");
  const Variable own("HEDDLE_LOG_FILE", log("own.jsonl", 2e-3));
  EXPECT_EQ(best(), "own.jsonl");
  AutoSchedulerOptions options;
  options.record_log = log("option.jsonl", 3e-3);
  const AutoSchedulerOptionsScope scope(options);
  EXPECT_EQ(best(), "option.jsonl");
  EXPECT_EQ(tophub_files().size(), 2u);
}

TEST_F(Tophub, IsReadOnceAndAgainAfterReload) {
  const std::string path = folder_ / "own.jsonl";
  write(path, "");
  const Variable own("HEDDLE_LOG_FILE", path);
  EXPECT_EQ(best(), "none");
  const auto before = tophub();
  log("own.jsonl");
  EXPECT_EQ(tophub(), before);
  EXPECT_EQ(best(), "none");
  reload_tophub();
  EXPECT_EQ(best(), "own.jsonl");
  EXPECT_THAT(before->records(), IsEmpty());
}

TEST_F(Tophub, ALogOfTheVariableThatIsNotThereIsAnError) {
  const std::string path = folder_ / "none.jsonl";
  const Variable own("HEDDLE_LOG_FILE", path);
  for (const bool all : {true, false, true}) {  // the answer is not kept
    try {
      all ? (void)tophub() : (void)tophub_files();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_EQ(e.message, "HEDDLE_LOG_FILE names '" + path + "', and there is no such file");
    }
  }
  log("none.jsonl");
  EXPECT_EQ(best(), "none.jsonl");
}

TEST_F(Tophub, ALogOfTheOptionsMayComeLater) {
  const std::string path = folder_ / "later.jsonl";
  const AutoSchedulerOptionsScope scope({.record_log = path});
  EXPECT_EQ(best(), "none");
  log("later.jsonl");
  reload_tophub();
  EXPECT_EQ(best(), "later.jsonl");
}

TEST_F(Tophub, AUsersLogThatCannotBeReadIsAnError) {
  const Variable own("HEDDLE_LOG_FILE", folder_.path());  // a folder
  EXPECT_THROW(tophub(), Error);
}

TEST_F(Tophub, ModelsAreFoundByKindAndCpu) {
  EXPECT_EQ(tophub_model(target_), std::nullopt);
  write(folder_ / "llvm-haswell.model", "x");
  const Variable hub("HEDDLE_TOPHUB", "off:" + folder_.path());
  EXPECT_EQ(tophub_model(target_), folder_ / "llvm-haswell.model");
  EXPECT_EQ(tophub_model(Target::parse("llvm -mcpu=znver3")), std::nullopt);
}

// ---- create_schedule ----

class CreateSchedule : public Tophub {
 protected:
  std::string steps(const Schedule& s) const { return s.to_json().at("steps").dump(); }
  Schedule create() const { return create_schedule({tensor_}, target_); }
  std::string put(const std::vector<Record>& records) const {
    write(folder_ / "own.jsonl", to_lines(records));
    reload_tophub();
    return folder_ / "own.jsonl";
  }
};

TEST_F(CreateSchedule, TakesTheRecord) {
  const Schedule analytic = create();
  EXPECT_EQ(analytic.provenance, "analytic rule of complex_reduction");
  EXPECT_FALSE(recorded_schedule({tensor_}, target_));
  const Record r = record_of(tensor_, target_, 1e-3);
  const Variable own("HEDDLE_LOG_FILE", put({r}));
  const Schedule s = create();
  EXPECT_EQ(s.provenance, "record of " + (folder_ / "own.jsonl") + ":1, 1.00 ms");
  EXPECT_EQ(steps(s), r.steps.at("steps").dump());
  EXPECT_NE(steps(s), steps(analytic));
  EXPECT_EQ(steps(*recorded_schedule({tensor_}, target_)), steps(s));
  // Another declaration, another target.
  EXPECT_THAT(create_schedule({matmul(40, 48, 55)}, target_).provenance, StartsWith("analytic"));
  EXPECT_THAT(create_schedule({tensor_}, test_target(3)).provenance, StartsWith("analytic"));
}

TEST_F(CreateSchedule, TheOptionsSayWhoseTargetCounts) {
  const Variable own("HEDDLE_LOG_FILE", put({record_of(tensor_, test_target(3))}));
  EXPECT_THAT(create().provenance, StartsWith("analytic"));
  AutoSchedulerOptions options;
  options.threads = 3;
  const AutoSchedulerOptionsScope scope(options);
  EXPECT_THAT(create().provenance, StartsWith("record of"));
}

TEST_F(CreateSchedule, OptionsTurnRecordsOff) {
  const Variable own("HEDDLE_LOG_FILE", put({record_of(tensor_, target_)}));
  std::vector<AutoSchedulerOptions> all(6);
  all[0].use_records = false;
  all[1].max_unroll = 64;
  all[2].max_knob_values = 2;
  all[3].force_template = "complex_reduction";
  all[4].l2_bytes = 1 << 20;
  all[5].l1_bytes = 1 << 15;
  for (const AutoSchedulerOptions& options : all) {
    const AutoSchedulerOptionsScope scope(options);
    EXPECT_THAT(create().provenance, StartsWith("analytic"));
  }
  for (const AutoSchedulerOptions& options : all) {
    EXPECT_THAT(create_schedule({tensor_}, target_, options).provenance, StartsWith("analytic"));
  }
  EXPECT_THAT(create().provenance, StartsWith("record of"));
}

// Whether records are used must not decide which cached template is found.
TEST_F(CreateSchedule, TemplatesAreSharedWithAndWithoutRecords) {
  const uint64_t fingerprint = make_template(ComputeDag({tensor_}), target_).fingerprint();
  AutoSchedulerOptions options;
  options.use_records = false;
  options.record_log = "somewhere";
  const AutoSchedulerOptionsScope scope(options);
  EXPECT_EQ(make_template(ComputeDag({tensor_}), target_).fingerprint(), fingerprint);
}

TEST_F(CreateSchedule, WhatDoesNotApplyIsSkippedAndNoted) {
  Record broken = record_of(tensor_, target_, 1e-4);
  broken.template_version ^= 1;
  broken.steps["steps"].push_back(Json::parse(R"(["split", 99, [0], [4], [100, 101]])"));
  const Variable own("HEDDLE_LOG_FILE", put({broken}));
  const Schedule analytic = create();
  EXPECT_THAT(analytic.provenance, StartsWith("analytic rule of complex_reduction; skipped the "));
  EXPECT_THAT(analytic.provenance, HasSubstr("own.jsonl:1, 100 us: the record of 'matmul' does"));
  put({broken, record_of(tensor_, target_, 1e-3)});
  EXPECT_THAT(create().provenance, HasSubstr("own.jsonl:2, 1.00 ms"));
}

// Any steps in a log cause at most an error.
TEST_F(CreateSchedule, NonsenseInALogDoesNoHarm) {
  std::vector<Record> records;
  for (const char* steps : {R"({})", R"({"v":1,"steps":7})", R"({"v":1,"steps":[[]]})",
                            R"({"v":1,"steps":[["split",0,[],[],[]]]})",
                            R"({"v":1,"steps":[["split",-5,[-1],[0],[-3,1000000000]]]})",
                            R"({"v":1,"steps":[["fuse",2,[0,9999],[],[50]]]})",
                            R"({"v":1,"steps":[["compute_at",0,[0],[],[]]]})",
                            R"({"v":1,"steps":[["cache_read",0,[],[1,2,3],[1]]]})",
                            R"({"v":1,"steps":[["layout",2,[],[1],[]]]})",
                            R"({"v":1,"steps":[["rfactor",2,[0],[],[]]]})",
                            R"({"v":1,"steps":[["prefetch",2,[],[],[]]]})",
                            R"({"v":1,"steps":[["reorder",2,[4,4,4],[],[]]]})"}) {
    Record r = record_of(tensor_, target_);
    r.template_version = 0;
    r.steps = Json::parse(steps);
    records.push_back(r);
  }
  const Variable own("HEDDLE_LOG_FILE", put(records));
  EXPECT_THAT(create().provenance, StartsWith("analytic rule of complex_reduction; skipped"));
}

TEST_F(CreateSchedule, ARecordedScheduleRuns) {
  const Tensor x = placeholder({20, 30}, f32, "x"), w = placeholder({30, 40}, f32, "w");
  const Tensor y = ops::matmul(x, w);
  const Variable own("HEDDLE_LOG_FILE", put({record_of(y, Target::host())}));
  const Schedule s = create_schedule({y});
  EXPECT_THAT(s.provenance, StartsWith("record of"));
  NDArray out = NDArray::zeros({20, 40}, f32);
  build(s, {x, w, y})(NDArray::full({20, 30}, f32, 1), NDArray::full({30, 40}, f32, 0.5), out);
  EXPECT_TRUE(allclose(out, NDArray::full({20, 40}, f32, 15)));
}

}  // namespace
}  // namespace heddle::testing
