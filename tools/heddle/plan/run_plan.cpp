// heddle plan: shows, compares, checks, merges and renews plans of models.
#include <algorithm>
#include <iostream>

#include "commands.h"
#include "common/figures.h"
#include "common/model_plan.h"
#include "common/output_file.h"
#include "heddle/network/tune.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "support/table.h"
#include "tune/budget.h"
#include "tune/interrupt.h"

namespace heddle::cli {
namespace {

constexpr int kDiffers = 1;

std::string seconds_text(double seconds) { return seconds > 0 ? format_time(seconds) : ""; }

/// "race of 24 rounds", "12 trials".
std::string proof_text(const PlannedNode& n) {
  if (n.proof == PlanProof::Race)
    return n.rounds > 0 ? "race of " + count_text(n.rounds, "round") : "race";
  return n.proof == PlanProof::Trials ? count_text(n.trials, "trial") : "nothing";
}

std::string choice_text(const PlannedNode& n) {
  if (n.is_rule()) return "rule";
  if (!n.kernels.is_null()) return "kernels by size";
  const std::string alternative = n.schedule.get_string("alternative", "");
  return alternative.empty() ? "steps" : alternative;
}

}  // namespace

int show_plan(const Request& o) {
  const NetworkPlan plan = load_plan(o.plans[0]);
  std::cout << (plan.model.empty() ? "a network" : plan.model) << ", " << plan.dtype << ", for "
            << to_string(plan.target) << ", " << count_text(plan.target.cores, "thread") << "\n"
            << "choices about the graph: " << (plan.passes.empty() ? "the usual" : plan.passes)
            << "\n";
  if (plan.seconds > 0)
    std::cout << "a call: " << format_time(plan.seconds) << ", by rule "
              << format_time(plan.rule_seconds) << ", race of " << count_text(plan.rounds, "round")
              << "\n";
  Table table({"node", "calls", "choice", "a call", "by rule", "rests on", "of"});
  table.align_left(2);
  table.align_left(5);
  table.align_left(6);
  for (const PlannedNode& n : plan.nodes) {
    table.add_row({n.name, format_fixed(n.calls, 0), choice_text(n), seconds_text(n.seconds),
                   seconds_text(n.rule_seconds), proof_text(n), n.date.substr(0, 10)});
  }
  std::cout << table.to_string();
  return 0;
}

int diff_plans(const Request& o) {
  const std::vector<std::string> lines =
      plan_differences(load_plan(o.plans[0]), load_plan(o.plans[1]));
  for (const std::string& line : lines) std::cout << line << "\n";
  return lines.empty() ? 0 : kDiffers;
}

int merge_plans(const Request& o) {
  check_writable(o.output);
  NetworkPlan all = load_plan(o.plans[0]);
  all.model = all.model.empty() ? "" : model_beside(model_of(all, o.plans[0]), o.output);
  for (size_t i = 1; i < o.plans.size(); ++i) {
    NetworkPlan next = load_plan(o.plans[i]);
    if (next.hash != all.hash)
      throw_user_error(
          "'" + o.plans[i] + "' is the plan of another network than '" + o.plans[0] + "'", {},
          "keep a plan for each network and its sizes");
    next.model = all.model;
    all = merged(all, next);
  }
  save_plan(all, o.output);
  std::cout << o.output << ": " << count_text(static_cast<int64_t>(all.nodes.size()), "node")
            << "\n";
  return 0;
}

namespace {

/// A plan, and its model as the options say.
struct Opened {
  NetworkPlan plan;
  Request options;
  Target target;
  OnnxModel model;
};

Opened open(Request o) {
  NetworkPlan plan = load_plan(o.plans[0]);
  if (o.subject.empty()) {
    o.subject = o.plans[0];
    open_plan(o);
  }
  Target target = target_of(o.target, o.threads);
  OnnxModel model = import_subject(o.subject, dtype_of(o.dtype));
  return {std::move(plan), std::move(o), std::move(target), std::move(model)};
}

Network planned(const Opened& o) {
  return Network::planned(o.model.outputs, o.plan, o.target, current_auto_scheduler_options(),
                          o.model.updates);
}

}  // namespace

int check_plan(const Request& o) {
  const Opened opened = open(o);
  const Network network = planned(opened);
  const PlanUse& use = *network.plan_use();
  std::cout << to_string(use) << "\n";
  for (const PlanUse::Node& n : use.nodes) {
    if (!n.planned) std::cout << "  " << n.name << ": " << n.why_not << "\n";
  }
  return use.whole() ? 0 : kDiffers;
}

namespace {

/// Which choices of a plan stay in the one that was made of it, and what the others became.
std::string kept_text(const NetworkPlan& plan, const NetworkPlan& made) {
  int kept = 0;
  std::string others;
  for (const PlannedNode& now : made.nodes) {
    NetworkPlan before, after;
    if (const PlannedNode* known = plan.find(now.hash)) before.nodes = {*known};
    after.nodes = {now};
    const std::vector<std::string> lines = plan_differences(before, after);
    kept += lines.empty() ? 1 : 0;
    for (const std::string& line : lines) others += "  " + line + "\n";
  }
  return "kept the choices of " + std::to_string(kept) + " of " +
         count_text(std::ssize(made.nodes), "node") + "\n" + others;
}

/// What the race of retune() decided.
std::string race_text(const TunedNetwork& tuned, const NetworkPlan& made) {
  std::string text = to_text(tuned.kernels);
  if (const std::optional<NetworkTimes>& whole = tuned.report.network) {
    text += "the plan against the rules, in " + count_text(whole->rounds, "round") + ": " +
            to_string(whole->verdict);
    if (made.seconds > 0)
      text +=
          ", a call " + format_time(made.seconds) + ", by rule " + format_time(made.rule_seconds);
    text += "\n";
  }
  for (const std::string& problem : tuned.report.problems) text += "problem: " + problem + "\n";
  return text;
}

}  // namespace

int retune_plan(const Request& o) {
  const Opened opened = open(o);
  const Network network = planned(opened);
  const Target& target = network.tasks().at(0).tmpl.target();
  const bool same = target == opened.plan.target;
  if (o.output.empty() && !same)
    throw_user_error("the plan is for '" + to_string(opened.plan.target) +
                         "', and this is another target: '" + to_string(target) + "'",
                     {}, "name the file of the new plan, with -o");
  const std::string file = o.output.empty() ? o.plans[0] : o.output;
  check_writable(file);
  std::cout << to_string(*network.plan_use()) << std::endl;
  TuneClock clock(parse_budget(o.budget));
  const TunedNetwork tuned = [&] {
    const ScopedThreads threads(network::race_threads(target));
    const InterruptScope interrupt(clock);
    return retune(network, clock.left_s(), clock, opened.model.dims);
  }();
  NetworkPlan made = plan_of(tuned);
  add_runners_up(made, opened.plan);
  made.model = model_beside(opened.options.subject, file);
  made.dtype = opened.options.dtype;
  std::cout << race_text(tuned, made);
  const bool raced = std::any_of(made.nodes.begin(), made.nodes.end(),
                                 [](const PlannedNode& n) { return n.proof == PlanProof::Race; });
  // A plan that has rules alone needs no race.
  if (!raced && network.plan_use()->rules() < network.plan_use()->planned()) {
    std::cout << "there was no time to race: the plan stays as it is\n";
    return tuned.report.cancelled ? kInterrupted : kDiffers;
  }
  if (same) made = merged(opened.plan, made);
  save_plan(made, file);
  std::cout << kept_text(opened.plan, made) << "the plan is in " << file << "\n";
  return tuned.report.cancelled ? kInterrupted : 0;
}

}  // namespace heddle::cli
