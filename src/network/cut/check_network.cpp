#include "network/cut/check_network.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "network/cut/step_plan.h"

namespace heddle::network {

void check_tensors(const ComputeDag& dag, const std::vector<Tensor>& args) {
  std::vector<Tensor> needed = dag.placeholders();
  needed.insert(needed.end(), dag.outputs().begin(), dag.outputs().end());
  const std::vector<Tensor> unread = dag.unread_placeholders();
  for (const Tensor& t : args) {
    if (t && (position_of(needed, t) >= 0 || position_of(unread, t) >= 0)) continue;
    throw_user_error(
        "argument '" + (t ? t.name() : "") + "' is neither an input nor an output of the network",
        {}, "pass the placeholders that the outputs read, and the outputs");
  }
  for (const Tensor& t : needed) {
    const auto listed =
        std::count_if(args.begin(), args.end(), [&](const Tensor& a) { return a.same_as(t); });
    if (listed == 0 && t.op()->data() != nullptr) continue;
    if (listed == 0) {
      throw_user_error("'" + t.name() + "' is missing from the arguments", t.op()->where(),
                       "list every input and every output of the network once");
    }
    if (listed > 1) {
      throw_user_error("'" + t.name() + "' is listed twice among the arguments", t.op()->where());
    }
  }
}

void check_schedules(const std::vector<TuneTask>& tasks, const std::vector<Schedule>& schedules) {
  if (schedules.size() != tasks.size()) {
    throw_user_error("the network has " + std::to_string(tasks.size()) + " tasks, but " +
                         std::to_string(schedules.size()) + " schedules were given",
                     {}, "give one a task, in the order of Network::tasks(), or none");
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Target &have = schedules[i].target(), &want = tasks[i].tmpl.target();
    if (have.is_cuda() != want.is_cuda()) {
      throw_user_error("schedule " + std::to_string(i) + " is for '" + to_string(have) +
                           "', and the network for '" + to_string(want) + "'",
                       {}, "make it for the network's target");
    }
    if (schedules[i].dag().direct().structural_hash() == tasks[i].tmpl.dag().structural_hash())
      continue;
    throw_user_error("schedule " + std::to_string(i) + " is not for task '" + tasks[i].name + "'",
                     {}, "give one a task, in the order of Network::tasks()");
  }
}

}  // namespace heddle::network
