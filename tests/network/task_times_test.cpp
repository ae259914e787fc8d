// The times of tasks as a tuner measures them, against the time of their nodes in the network.
#include "network/race/task_times.h"

#include <map>

#include "network/network_testing.h"

namespace heddle::testing {
namespace {

/// Gives the same time for every schedule, and no time for one task.
class EqualTimes : public Measurer {
 public:
  void measure(const TuneTask& task, std::span<const Schedule> schedules, double, const TuneClock&,
               const std::function<void(size_t, const MeasureResult&)>& done) override {
    ++calls[task.name];
    network_bytes = task.network_bytes;
    for (size_t i = 0; i < schedules.size(); ++i) {
      EXPECT_EQ(schedules[i].to_text(), task.tmpl.static_schedule().to_text());
      MeasureResult r;
      r.seconds = {1e-3};
      if (task.name == refused) {
        r.error = MeasureError::Compile;
        r.message = "no such instruction";
      }
      done(i, r);
    }
  }
  std::vector<MeasureResult> race(const TuneTask&, std::span<const Schedule>, double,
                                  const TuneClock&) override {
    return {};
  }
  std::string protocol() const override { return "equal"; }

  std::string refused;
  std::map<std::string, int> calls;
  int64_t network_bytes = 0;
};

TEST(TaskTimes, EachTaskIsMeasuredInEachRoundAsTuningDoes) {
  const Network net({digits_network()});
  EqualTimes measurer;
  const std::vector<network::TaskTimes> times = network::time_tasks(net, measurer, 3);
  ASSERT_EQ(times.size(), net.tasks().size());
  int nodes = 0;
  for (size_t t = 0; t < times.size(); ++t) {
    EXPECT_EQ(times[t].name, net.tasks()[t].name);
    EXPECT_EQ(times[t].failure, "");
    EXPECT_GT(times[t].in_network_s, 0);
    EXPECT_GT(times[t].as_measured_s, 0);
    EXPECT_DOUBLE_EQ(times[t].sum_as_measured_s(), times[t].nodes * times[t].as_measured_s);
    EXPECT_EQ(measurer.calls[times[t].name] % 3, 0);
    nodes += times[t].nodes;
  }
  EXPECT_EQ(nodes, static_cast<int>(net.nodes().size()));
  EXPECT_GT(measurer.network_bytes, 0);  // the caches are those of the network
}

TEST(TaskTimes, ATaskThatFailsIsNamedAndNotMeasuredAgain) {
  const Network net({digits_network()});
  EqualTimes measurer;
  measurer.refused = net.tasks()[1].name;
  const std::vector<network::TaskTimes> times = network::time_tasks(net, measurer, 3);
  EXPECT_EQ(times[1].failure, "no such instruction");
  EXPECT_EQ(times[1].as_measured_s, 0);
  EXPECT_GT(times[1].in_network_s, 0);
  EXPECT_EQ(measurer.calls[measurer.refused], 1);
  EXPECT_GT(times[0].as_measured_s, 0);
}

TEST(TaskTimes, NetworksOfGpusAreRefused) {
  EqualTimes measurer;
  const Network net({digits_network()}, Target::parse("cuda -gpu=h200"));
  EXPECT_THAT(message_of([&] { (void)network::time_tasks(net, measurer, 1); }),
              ::testing::HasSubstr("networks of one size on CPUs"));
}

}  // namespace
}  // namespace heddle::testing
