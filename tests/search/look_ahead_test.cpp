// Candidates that are proposed and announced while earlier ones are measured.
#include "search/tune_testing.h"

namespace heddle::testing {
namespace {

// A measurer that compiles elsewhere wants more candidates than one batch.
TEST_F(Tune, AMeasurerThatLooksAheadGetsItsCandidatesEarly) {
  FakeMeasurer m(on_landscape(3));
  m.ahead = 60;
  TuneOptions o = options(m, 200);
  o.patience = 0;
  TuneReport report = tune_tasks({matmul_task()}, o);
  EXPECT_EQ(report.trials, 200);
  EXPECT_EQ(m.repeated, 0);
  EXPECT_GE(m.most_ahead, 60u);
  EXPECT_LE(m.most_ahead, 60u + 16u);  // with the batch, which was announced as well
  EXPECT_TRUE(report.tasks[0].improved);
  for (const auto& [name, keys] : m.announced) EXPECT_TRUE(keys.empty()) << name;

  // The winners of similar tasks are proposed once, although they are not measured at once.
  FakeMeasurer several(on_landscape(3));
  several.ahead = 40;
  o = options(several, 240);
  o.patience = 0;
  report = tune_tasks({matmul_task(), matmul_task(72)}, o);
  EXPECT_EQ(several.repeated, 0);
  EXPECT_EQ(report.trials, 240);
}

// Each device times the static choice once for its share of a batch.
TEST_F(Tune, BatchesGrowWithTheNumberOfDevices) {
  for (const auto& [devices, batch] : {std::pair{1, 16}, {3, 48}, {8, 128}, {40, 320}}) {
    FakeMeasurer m(on_landscape(3));
    m.devices = devices;
    TuneOptions o = options(m, 6 * batch);
    o.patience = 0;
    o.batch = 16;
    tune_tasks({matmul_task()}, o);
    EXPECT_EQ(m.largest_batch, static_cast<size_t>(batch)) << devices << " devices";
  }
}

}  // namespace
}  // namespace heddle::testing
