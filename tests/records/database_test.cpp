// The record that answers for a declaration and target, and the message where none does.
#include "records/records_testing.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> subjects(const std::vector<const Record*>& records) {
  std::vector<std::string> out;
  for (const Record* r : records) out.push_back(r->subject);
  return out;
}

class Database : public ::testing::Test {
 protected:
  const Tensor tensor_ = matmul(64, 48, 32);
  const ComputeDag dag_{{tensor_}};
  const uint64_t hash_ = dag_.structural_hash();
  const Target target_ = test_target();
  RecordDatabase db_;

  Record record(double seconds, const std::string& subject) const {
    return record_of(tensor_, target_, seconds, subject);
  }
  std::string best() const {
    const Record* r = db_.best(hash_, target_);
    return r != nullptr ? r->subject : "none";
  }
};

TEST_F(Database, TheFastestValidRecordIsBest) {
  EXPECT_EQ(best(), "none");
  db_.add(failed(record(1, "failed"), MeasureError::Crash));
  EXPECT_EQ(best(), "none");
  db_.add(record(2e-3, "slow"));
  db_.add(record(1e-3, "fast"));
  db_.add(record(3e-3, "slower"));
  EXPECT_EQ(best(), "fast");
  db_.add(record(1e-3, "as fast"));
  EXPECT_EQ(best(), "as fast");  // later ones win ties
  EXPECT_THAT(subjects(db_.ranked(hash_, target_)),
              ElementsAre("as fast", "fast", "slow", "slower"));
  EXPECT_THAT(subjects(db_.of(hash_, target_)),
              ElementsAre("failed", "slow", "fast", "slower", "as fast"));
  EXPECT_EQ(db_.records().size(), 5u);
}

TEST_F(Database, ARaceOutranksScreening) {
  Record race = record(2e-3, "race");
  race.verdict = Verdict::Raced;
  db_.add(race);
  db_.add(record(1e-3, "screened"));
  EXPECT_EQ(best(), "race");
}

TEST_F(Database, WhatTuningReturnedOutranksWhatItMeasured) {
  auto add = [&](double seconds, const std::string& name, Verdict verdict) {
    Record r = record(seconds, name);
    r.verdict = verdict;
    db_.add(std::move(r));
  };
  add(1e-3, "screened", Verdict::Screened);
  add(3e-3, "chosen first", Verdict::Chosen);
  add(4e-3, "chosen", Verdict::Chosen);
  add(2e-3, "lost", Verdict::Raced);
  EXPECT_EQ(best(), "chosen");
  add(5e-3, "won", Verdict::Won);
  add(1e-3, "chosen later", Verdict::Chosen);
  EXPECT_EQ(best(), "won");
}

TEST_F(Database, AHigherRankOutranksTimes) {
  Record shipped = record(1e-3, "shipped");
  shipped.verdict = Verdict::Raced;
  db_.add(shipped);
  db_.add(record(5e-3, "own"), 1);
  EXPECT_EQ(best(), "own");
  db_.add(failed(record(1, "own, failed"), MeasureError::Timeout), 2);
  EXPECT_EQ(best(), "own");
}

TEST_F(Database, TargetsMustMatch) {
  db_.add(record(1e-3, "two threads"));
  EXPECT_EQ(db_.best(hash_, test_target(4)), nullptr);
  EXPECT_EQ(db_.best(hash_ + 1, target_), nullptr);
  Target t = target_;
  t.l1d_bytes *= 2;
  t.l2_bytes *= 2;
  t.l3_bytes = 0;
  EXPECT_TRUE(target_matches(t, target_));
  for (const char* other :
       {"llvm -mcpu=haswell -threads=3", "llvm -mcpu=broadwell -threads=2",
        "llvm -mcpu=haswell -mattr=-fma -threads=2", "llvm -mcpu=haswell -threads=2 -vector=16",
        "llvm -mcpu=haswell -threads=2 -mtriple=x86_64-pc-windows"}) {
    EXPECT_FALSE(target_matches(Target::parse(other), target_)) << other;
  }
  EXPECT_TRUE(target_matches(Target::parse("llvm -mcpu=haswell -mattr=+avx512f,-fma"),
                             Target::parse("llvm -mcpu=haswell -mattr=-fma,+avx512f")));
  // Of GPUs: the chip, what it is compiled for, and how many SMs there are.
  const Target h200 = Target::parse("cuda -gpu=h200");
  EXPECT_TRUE(target_matches(Target::parse("cuda -gpu=h200 -clock=1700 -l2=50M"), h200));
  for (const char* other :
       {"cuda -gpu=h100", "cuda -gpu=h200 -arch=sm_80", "cuda -gpu=h200 -sms=66", "llvm"}) {
    EXPECT_FALSE(target_matches(Target::parse(other), h200)) << other;
  }
}

TEST_F(Database, NeighboursDifferInSizesThreadsOrChip) {
  db_.add(record(1e-3, "itself"));
  db_.add(record_of(matmul(512, 512, 512), target_, 1e-3, "far"));
  db_.add(record_of(matmul(64, 48, 64), target_, 1e-3, "near, slower"));
  db_.add(record_of(matmul(64, 48, 64), target_, 1e-4, "near"));
  db_.add(record_of(matmul(128, 96, 32), target_, 1e-3, "farther"));
  db_.add(failed(record_of(matmul(64, 48, 33), target_), MeasureError::Crash));
  db_.add(record_of(tensor_, Target::parse("llvm -mcpu=broadwell -threads=2"), 1e-3, "chip"));
  db_.add(record_of(tensor_, test_target(8), 1e-3, "threads"));
  db_.add(record_of(tensor_, Target::parse("cuda -gpu=h200"), 1e-3, "other kind"));
  db_.add(record_of(ops::relu(matmul(64, 48, 64)), target_, 1e-3, "other structure"));
  const std::vector<Neighbour> all = db_.neighbours(dag_, target_, 9);
  std::vector<std::string> names;
  for (const Neighbour& n : all) names.push_back(n.record->subject);
  EXPECT_THAT(names, ElementsAre("chip", "threads", "near", "farther", "far"));
  EXPECT_EQ(all[1].by, Nearness{.threads = 2});
  EXPECT_GT(all[0].by.chip, 0);
  EXPECT_EQ(to_string(all[1].by), "2.00 (threads 2.00)");
  EXPECT_EQ(db_.neighbours(dag_, target_, 1).size(), 1u);
  EXPECT_THAT(db_.neighbours(dag_, target_, 0), IsEmpty());
}

TEST_F(Database, ChipsAreNearByWhatSchedulesDependOn) {
  const auto cpu = [](const char* name) {
    return Target::parse(std::string("llvm -mcpu=") + name + " -threads=2");
  };
  const Target zen = cpu("znver5");
  EXPECT_EQ(chip_distance(zen, Target::parse("llvm -mcpu=znver5 -threads=7")), 0);
  EXPECT_LT(chip_distance(cpu("emeraldrapids"), cpu("sapphirerapids")),
            chip_distance(cpu("emeraldrapids"), cpu("skylake-avx512")) + 0.01);
  EXPECT_LT(chip_distance(zen, cpu("znver4")), chip_distance(zen, cpu("znver3")));
  EXPECT_TRUE(std::isinf(chip_distance(zen, Target::parse("cuda -gpu=h200"))));
  EXPECT_LT(chip_distance(Target::parse("cuda -gpu=h200"), Target::parse("cuda -gpu=h100")),
            chip_distance(Target::parse("cuda -gpu=h200"), Target::parse("cuda -gpu=a100")));
}

TEST_F(Database, RecordsWithoutAShapeClassAreNoNeighbours) {
  Record old = record_of(matmul(64, 48, 64), target_);
  old.shape_class.clear();
  old.extents.clear();
  db_.add(old);
  EXPECT_THAT(db_.neighbours(dag_, target_, 9), IsEmpty());
}

TEST_F(Database, SaysWhyThereIsNoHit) {
  EXPECT_EQ(db_.why_no_hit(dag_, target_), "there are no records at all");
  db_.add(record_of(ops::relu(matmul(64, 48, 32)), target_, 1e-3, "relu"));
  EXPECT_EQ(db_.why_no_hit(dag_, target_),
            "none of the 1 record is of this structure: other stages, types, constants or strides");
  db_.add(record_of(matmul(8, 8, 8), test_target(4), 1e-3, "matmul:8x8x8"));
  EXPECT_EQ(db_.why_no_hit(dag_, target_),
            "there are records of this structure, but of other extents; nearest first: "
            "matmul:8x8x8 for 'llvm -mcpu=haswell'");
  db_.add(record_of(matmul(8, 8, 8), target_, 1e-3, "matmul:8x8x8"));
  db_.add(record_of(matmul(64, 64, 64), target_, 1e-3, "matmul:64x64x64"));
  EXPECT_EQ(db_.why_no_hit(dag_, target_),
            "there are records of this structure, but of other extents; nearest first: "
            "matmul:64x64x64, matmul:8x8x8, matmul:8x8x8 for 'llvm -mcpu=haswell'");
  for (int threads : {1, 3, 8, 16}) db_.add(record_of(tensor_, test_target(threads)));
  EXPECT_EQ(db_.why_no_hit(dag_, target_),
            "there are records of this declaration, but none for 'llvm -mcpu=haswell -threads=2': "
            "they are for 'llvm -mcpu=haswell -threads=1', 'llvm -mcpu=haswell -threads=3', 'llvm "
            "-mcpu=haswell -threads=8' and 1 more");
  db_.add(failed(record(1, "m"), MeasureError::Crash));
  EXPECT_EQ(db_.why_no_hit(dag_, target_),
            "the 1 record of this declaration for this target is of a failure (crash)");
  db_.add(failed(record(1, "m"), MeasureError::WrongAnswer));
  EXPECT_EQ(db_.why_no_hit(dag_, target_),
            "the 2 records of this declaration for this target are all of failures (crash, "
            "wrong_answer)");
  db_.add(record(1e-3, "m"));
  EXPECT_THAT(db_.why_no_hit(dag_, target_), HasSubstr("there is a hit: record of "));
}

TEST_F(Database, AddsFilesAndReportsWhatIsBroken) {
  const Folder folder;
  const std::string path = folder / "a.jsonl";
  write(path, to_lines({record(1e-3, "a")}) + "torn");
  EXPECT_THAT(db_.add_file(path), ElementsAre(path + ":2: torn last line skipped"));
  EXPECT_EQ(db_.best(hash_, target_)->origin, path + ":1");
  EXPECT_THAT(error_of([&] { db_.add_file(folder / "none"); }), HasSubstr("cannot read"));
}

}  // namespace
}  // namespace heddle::testing
