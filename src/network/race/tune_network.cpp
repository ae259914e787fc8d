#include "heddle/network/network.h"
#include "search/tuner.h"

namespace heddle {

TuneReport tune(const Network& network, const TuneOptions& options) {
  if (options.joint_race || options.measurer) return tune_tasks(network.tasks_to_tune(), options);
  search::check_tuning(network.tasks(), options);
  TuneClock own(options.budget.count());
  TuneOptions on_network = options;
  if (options.clock == nullptr) on_network.clock = &own;
  const std::string subject = network.outputs()[0].name();
  const PassChoice choice = tune_passes(network, subject, options.log, *on_network.clock);
  const Network chosen =
      choice.options == network.pass_options() ? network : network.with_passes(choice.options);
  const std::unique_ptr<JointRace> race = make_network_race(chosen);
  on_network.joint_race = race.get();
  TuneReport report = tune_tasks(chosen.tasks_to_tune(), on_network);
  report.passes = to_string(choice.options);
  report.problems.insert(report.problems.begin(), choice.times.problems.begin(),
                         choice.times.problems.end());
  return report;
}

}  // namespace heddle
