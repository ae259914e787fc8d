// tune(network): every task gets its trials, and what comes back builds and computes the same.
#include <set>

#include "network/network_testing.h"

namespace heddle::testing {
namespace {

// Times without running anything: schedules that are not the static choice are faster.
class InstantMeasurer : public Measurer {
 public:
  void measure(const TuneTask& task, std::span<const Schedule> schedules, double, const TuneClock&,
               const std::function<void(size_t, const MeasureResult&)>& done) override {
    for (size_t i = 0; i < schedules.size(); ++i) done(i, time(task, schedules[i]));
  }
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules, double,
                                  const TuneClock&) override {
    std::vector<MeasureResult> results;
    for (const Schedule& s : schedules) results.push_back(time(task, s));
    return results;
  }
  std::string protocol() const override { return "instant"; }

  std::set<std::string> measured;  // names of tasks

 private:
  MeasureResult time(const TuneTask& task, const Schedule& schedule) {
    measured.insert(task.name);
    const Template& t = task.tmpl;
    const bool is_static = schedule.to_text() == t.instantiate(t.default_config()).to_text();
    MeasureResult r;
    r.seconds.assign(5, is_static ? 2e-3 : 1e-3);
    return r;
  }
};

std::set<std::string> names_of_tasks(const Network& net) {
  std::set<std::string> names;
  for (const TuneTask& task : net.tasks()) names.insert(task.name);
  return names;
}

TEST(TuneNetwork, ReturnsAScheduleATaskThatBuildsTheSameNetwork) {
  const std::vector<Tensor> outputs{digits_network()}, args = args_of(outputs);
  const Network net(outputs);
  InstantMeasurer measurer;
  TuneOptions options;
  options.budget = std::chrono::seconds(20);
  options.batch = 8;
  options.max_trials = 100;
  options.measurer = &measurer;
  options.policy = [](const SearchContext& c) { return make_random_policy(c); };
  const TuneReport report = tune(net, options);
  ASSERT_EQ(report.tasks.size(), net.tasks().size());
  EXPECT_EQ(names_of_tasks(net), measurer.measured);
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    EXPECT_EQ(report.tasks[i].name, net.tasks()[i].name);
    EXPECT_LE(report.tasks[i].best_seconds, report.tasks[i].static_seconds);
    EXPECT_TRUE(report.tasks[i].improved) << report.tasks[i].name;
  }
  const NetworkKernel run = net.build(args, report);
  const std::vector<NDArray> arrays = arrays_for(args);
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
}

}  // namespace
}  // namespace heddle::testing
