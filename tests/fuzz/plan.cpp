// A plan, and what a network takes of it.
#include "heddle/network/plan.h"

#include "fuzz/fuzz_target.h"
#include "heddle/dsl/tensor.h"
#include "heddle/ops/ops.h"
#include "heddle/support/error.h"

namespace heddle::fuzz {
namespace {

/// Three nodes, of which one is over no product.
const Network& sample_network() {
  static const Network network = [] {
    const Tensor x = placeholder({6, 32}, f32, "x"), w = placeholder({32, 48}, f32, "w");
    return Network({ops::softmax(ops::relu(ops::matmul(x, w)))},
                   Target::parse("llvm -mcpu=skylake -threads=2"));
  }();
  return network;
}

}  // namespace

void read_plan(std::string_view bytes) {
  const NetworkPlan plan = parse_plan(bytes, "plan");
  const std::string written = to_text(plan);
  HEDDLE_ICHECK(to_text(parse_plan(written, "again")) == written,
                "a plan that was read is written as another");
  HEDDLE_ICHECK(plan_differences(plan, plan).empty(), "a plan differs from itself");
  HEDDLE_ICHECK(to_text(merged(plan, plan)) == written,
                "a plan that is merged with itself differs");
  const Network planned = sample_network().with_plan(plan);
  HEDDLE_ICHECK(!to_string(*planned.plan_use()).empty(), "nothing is said of a plan");
}

std::vector<std::string> plan_seeds() {
  const Network& network = sample_network();
  TuneReport report;
  for (const Schedule& s : network.static_schedules())
    report.tasks.push_back({.name = "node", .config = {}, .schedule = s, .improved = true});
  NetworkPlan tuned = plan_of(network, report);
  for (TaskResult& task : report.tasks) task.improved = false;
  const std::string text = to_text(tuned);
  return {text, to_text(plan_of(network, report)), Json::parse(text).dump()};
}

}  // namespace heddle::fuzz
