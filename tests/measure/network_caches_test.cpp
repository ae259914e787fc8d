// The caches as a network leaves them, and measuring with them.
#include "measure/task/network_caches.h"

#include <gtest/gtest.h>

#include "measure/measure_testing.h"
#include "measure/process/task.h"
#include "measure/process/weights_place.h"

namespace heddle::measuring {
namespace {

Target machine() {
  Target t = Target::host();
  t.cores = 2;
  t.l2_bytes = 1 << 20;
  t.l3_bytes = 32 << 20;
  return t;
}

TEST(NetworkCaches, WhereWeightsAreDependsOnWhatAllOfThemTake) {
  EXPECT_EQ(weights_in(1, machine()), WeightsIn::NearCaches);
  EXPECT_EQ(weights_in(1 << 20, machine()), WeightsIn::NearCaches);
  EXPECT_EQ(weights_in(8 << 20, machine()), WeightsIn::LastCache);
  EXPECT_EQ(weights_in(100 << 20, machine()), WeightsIn::Memory);
  Target one = machine();
  one.l3_bytes = 0;  // no shared cache
  EXPECT_EQ(weights_in(8 << 20, one), WeightsIn::Memory);
}

TEST(NetworkCaches, NothingIsWritten) {
  struct Case {
    int64_t bytes;
    std::optional<double> from_memory;
  };
  for (const Case& c : {Case{1, {}}, Case{8 << 20, {}}, Case{100 << 20, {}}, Case{8 << 20, 0.5},
                        Case{100 << 20, 0.0}, Case{8 << 20, 1.0}}) {
    NetworkCaches caches(c.bytes, machine(), c.from_memory);
    EXPECT_EQ(caches.active(), c.bytes > 1);
    const NDArray w = NDArray::random({1000}, f32, 1), x = NDArray::random({3, 7}, f32, 2);
    const NDArray empty = NDArray::zeros({0, 4}, f32);
    const NDArray w_before = w.copy(), x_before = x.copy();
    const std::vector<NDArray> weights{w, empty}, inputs{x, empty};
    caches.before_call(weights, inputs);
    EXPECT_EQ(max_abs_diff(w, w_before), 0);
    EXPECT_EQ(max_abs_diff(x, x_before), 0);
  }
}

TEST(NetworkCaches, TheShareOfWeightsFromMemoryIsAShareAndIsKept) {
  for (const int64_t bytes : {int64_t{1}, int64_t{20} << 20}) {
    const std::optional<double> share = weights_from_memory(bytes);
    if (share) {
      EXPECT_GE(*share, 0);
      EXPECT_LE(*share, 1);
    }
    EXPECT_EQ(weights_from_memory(bytes), share);
  }
}

TEST(NetworkCaches, TheMessageOfATaskHasTheShare) {
  TuneTask task = make_task(
      "matmul",
      {ops::matmul(placeholder({8, 8}, f32, "A"), constant_placeholder({8, 8}, f32, "B"))},
      testing::two_threads());
  SharedMemory memory;
  EXPECT_FALSE(task_message(0, *make_measured_task(task, memory), true).from_memory);
  task.network_bytes = 20 << 20;
  const std::shared_ptr<MeasuredTask> made = make_measured_task(task, memory);
  const TaskMessage message = task_message(0, *made, true);
  const std::optional<double> share = weights_from_memory(task.network_bytes);
  EXPECT_EQ(message.from_memory, share);
  EXPECT_EQ(told_task(message)->from_memory, share);
}

TEST(NetworkCaches, TasksOfNetworksAreMeasuredRightAndRaced) {
  using testing::candidates;
  const Tensor c =
      ops::matmul(placeholder({48, 40}, f32, "A"), constant_placeholder({40, 56}, f32, "B"));
  TuneTask task = make_task("matmul", {c}, testing::two_threads());
  WorkerOptions options;
  options.protocol = testing::quick_protocol();
  options.workers = 1;
  const auto measurer = make_worker_measurer(options);
  for (const int64_t bytes : {int64_t{1}, int64_t{100} << 30}) {
    task.network_bytes = bytes;
    const std::vector<Schedule> schedules = candidates(task, 3);
    const testing::Collected got = testing::measure_all(*measurer, task, schedules);
    for (const MeasureResult& r : got.results) EXPECT_TRUE(r.ok()) << r.message;
    for (const MeasureResult& r : measurer->race(task, schedules, 0.05, TuneClock()))
      EXPECT_TRUE(r.ok()) << r.message;
  }
}

}  // namespace
}  // namespace heddle::measuring
