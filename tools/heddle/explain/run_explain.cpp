// heddle explain: prints what Heddle makes of a subject, and why.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "commands.h"
#include "common/family.h"
#include "common/figures.h"
#include "common/model_kernels.h"
#include "common/model_plan.h"
#include "explain/explain_parts.h"
#include "heddle/network/plan.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/cut/choice_costs.h"
#include "network/cut/memory/node_costs.h"
#include "network/cut/sizes/family_tasks.h"
#include "subjects/family_subject.h"
#include "subjects/model_subject.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

// The parts that --show names, each once, or the usual ones.
std::vector<std::string> parts_of(const Request& options, bool node, const Target& target) {
  std::vector<std::string> parts;
  for (const std::string& part : options.show) {
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  if (parts.empty()) {
    if (target.is_cuda()) {
      parts = {"classes", "certificate", "schedule", "cuda", "resources"};
    } else {
      parts = {"classes", "alternatives", "certificate", "schedule", "instructions"};
      if (!node && target.runs_here()) parts.push_back("times");
    }
  }
  if (!options.pass.empty() && std::find(parts.begin(), parts.end(), "loops") == parts.end()) {
    parts.push_back("loops");
  }
  return parts;
}

AutoSchedulerOptions scheduler_of(const Request& options, const Target& target) {
  AutoSchedulerOptions scheduler = current_auto_scheduler_options();
  if (!target.is_cuda()) scheduler.threads = target.cores;
  scheduler.allow_tf32 = options.allow_tf32;
  return scheduler;
}

// Explains one kernel: that of a subject, or of a node of a model.
int explain_kernel(const Request& options, const Problem& problem, bool node,
                   const Schedule* planned, const Target& target) {
  const std::vector<std::string> names = parts_of(options, node, target);
  const ScopedThreads threads(target.cores);
  std::vector<ExplainPart> made =
      make_explain_parts(options, problem, node, planned, target, names);
  if (options.json) {
    Json j = Json::object({{"subject", problem.subject},
                           {"dtype", to_string(problem.dtype)},
                           {"threads", target.cores},
                           {"target", to_string(target)},
                           {"flops", problem.flops},
                           {"bytes", problem.bytes}});
    for (size_t i = 0; i < names.size(); ++i) j[names[i]] = std::move(made[i].json);
    std::cout << j.dump(1) << "\n";
    return 0;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    // A single part is printed without a heading, as input for another program (llc, an assembler).
    if (names.size() > 1) {
      if (i == 0) {
        std::cout << problem.subject << "  " << to_string(problem.dtype) << ", for "
                  << to_string(target) << "\n";
      }
      std::cout << "\n== " << names[i] << " ==\n";
    }
    std::cout << made[i].text;
    if (made[i].text.empty() || made[i].text.back() != '\n') std::cout << "\n";
  }
  return 0;
}

// Explains the kernel of one node of a model.
int explain_node(const Request& options, const Problem& model, const Network& network,
                 const Target& target) {
  const int nodes = static_cast<int>(network.nodes().size());
  if (options.node >= nodes) {
    throw_user_error(
        "there is no node " + std::to_string(options.node) + " in '" + options.subject + "'", {},
        "its nodes are 0 to " + std::to_string(nodes - 1));
  }
  const auto number = static_cast<size_t>(network.nodes()[options.node].task);
  const TuneTask& task = network.tasks().at(number);
  const network::TaskFamily& kernels = network::families_of(network)[number];
  // A schedule over dimensions is not for the declaration at one size that is explained.
  const bool planned = kernels.planned && kernels.outputs.empty();
  Problem problem;
  problem.subject = model.subject + ", node " + std::to_string(options.node) + ", " + task.name;
  problem.dtype = task.args.back().dtype();
  for (const Tensor& t : task.args) {
    (t.op()->is_placeholder() ? problem.inputs : problem.outputs).push_back(t);
  }
  return explain_kernel(options, problem, true, planned ? &kernels.planned->schedules[0] : nullptr,
                        target);
}

// What decides for each kernel of a network with a plan.
std::string plan_text(const PlanUse* use) {
  if (!use) return "";
  Table table({"kernel", "decided by", ""});
  table.align_left(1);
  table.align_left(2);
  for (const PlanUse::Node& n : use->nodes) {
    table.add_row({n.name,
                   !n.planned ? "records or rules"
                   : n.rule   ? "the rule"
                              : "the plan",
                   n.planned ? "" : "not the plan: " + n.why_not});
  }
  return "\nthe plan decides for " + to_string(*use) + ":\n" + table.to_string();
}

// "+1.2 MB", "-", where `text` writes what is not negative.
template <class Text>
std::string change_text(double change, Text&& text) {
  if (change == 0) return "-";
  return (change < 0 ? "-" : "+") + text(std::abs(change));
}

// Where the search for a plan of fusion left the answers of the rules.
std::string searched_text(const network::CutNetwork& cut, const Target& target) {
  if (target.is_cuda() || target.cores > 1) return "";
  if (cut.searched.empty())
    return "rules chose the plan: no other one costs less by more than estimates are wrong by\n";
  std::string text = "rules chose the plan but for what costs less by estimate:";
  for (const auto& [name, on] : cut.searched) text += (on ? " " : " -") + name;
  return text + "\n";
}

// The choices about parts of a network over ranges of sizes, named at the usual ones.
std::string choices_over_ranges(const Network& network) {
  Table table({"--passes=", "now", "places", "what it decides"});
  table.align_left(1);
  table.align_left(3);
  for (const NetworkChoice& c : network.choices())
    table.add_row(
        {(c.on ? "-" : "") + c.name, c.on ? "on" : "off", std::to_string(c.places), c.text});
  return "\nchoices for all sizes, by their names at the usual ones:\n" + table.to_string();
}

// The choices about parts of a network, and what a call costs more the other way. The first column
// is what --passes takes to change each.
std::string choices_text(const Network& network, const Target& target) {
  if (network.choices().empty()) return "";
  if (!network.sizes().empty()) return choices_over_ranges(network);
  const ComputeDag declared(network.outputs());
  const network::CutNetwork cut =
      network::cut_network(declared, target, network.pass_options(), network.updates());
  const network::PlanCost now = network::cost_of(cut, target);
  Table table(
      {"--passes=", "now", "places", "time", "arithmetic", "bytes", "nodes", "what it decides"});
  table.align_left(1);
  table.align_left(7);
  for (const auto& [c, flipped] :
       network::choice_costs(cut, declared, target, network.pass_options(), network.updates())) {
    std::vector<std::string> row{(c.on ? "-" : "") + c.name, c.on ? "on" : "off",
                                 std::to_string(c.places)};
    if (flipped) {
      row.push_back(change_text(flipped->seconds - now.seconds, format_time));
      row.push_back(change_text(flipped->flops - now.flops, flops_text));
      row.push_back(change_text(flipped->bytes - now.bytes,
                                [](double b) { return bytes_text(static_cast<int64_t>(b)); }));
      row.push_back(
          change_text(flipped->nodes - now.nodes, [](double n) { return format_fixed(n, 0); }));
    } else {
      row.insert(row.end(), {"no room", "", "", ""});
    }
    row.push_back(c.text);
    table.add_row(std::move(row));
  }
  return "\nchoices that tuning tries, and what each costs more the other way, by estimate\n(a "
         "call as "
         "it is takes " +
         format_time(now.seconds) + "):\n" + table.to_string() + searched_text(cut, target);
}

// Explains a model, which is many kernels: lists them and the buffers between them.
int explain_model(const Request& options) {
  const Problem problem = model_problem(options.subject, dtype_of(options.dtype));
  const Target target = target_of(options.target, options.threads);
  const AutoSchedulerOptionsScope scope(scheduler_of(options, target));
  const Network network = model_network(options, problem.outputs, target, problem.updates);
  if (options.node >= 0) return explain_node(options, problem, network, target);
  if (!options.show.empty() || !options.pass.empty() || options.naive) {
    throw_user_error("of a model only its nodes are shown", {},
                     "leave --show, --pass and --naive out, or choose one node: --node 0");
  }
  const std::vector<TaskKernels> kernels = model_kernels(options, problem, network);
  if (options.json) {
    std::cout << kernels_json(kernels, problem, target).dump(1) << "\n";
    return 0;
  }
  std::cout << problem.subject << "  for " << to_string(target) << ", " << flops_text(problem.flops)
            << ", " << bytes_text(problem.bytes) << ", " << network.nodes().size() << " nodes, "
            << network.tasks().size() << " kernels\n\n"
            << network.to_text() << kernels_text(kernels) << plan_text(network.plan_use());
  std::vector<PassApplication> passes = network.passes();
  for (PassApplication& a : network.shared_launches()) passes.push_back(std::move(a));
  if (!passes.empty()) std::cout << "\npasses over the graph:\n";
  // The steps of a recurrent layer say the same hundreds of times.
  std::vector<std::pair<std::string, int>> lines;
  for (const PassApplication& a : passes) {
    std::string line = a.pass + ": " + a.text;
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const auto& seen) { return seen.first == line; });
    if (same == lines.end()) {
      lines.emplace_back(std::move(line), 1);
    } else {
      ++same->second;
    }
  }
  for (const auto& [line, times] : lines)
    std::cout << "  " << line << (times > 1 ? ", " + std::to_string(times) + " times" : "") << "\n";
  std::cout << choices_text(network, target);
  return 0;
}

}  // namespace

const std::vector<std::string>& explain_parts() {
  static const std::vector<std::string> parts = {
      "dag",      "classes", "alternatives", "certificate",  "constants",
      "template", "space",   "schedule",     "instructions", "loops",
      "llvm",     "asm",     "cuda",         "resources",    "times"};
  return parts;
}

int run_explain(const Request& options) {
  if (options.node >= 0 && (is_family(options.subject) || !is_model(options.subject))) {
    throw_user_error("'" + options.subject + "' is one kernel, which has no nodes", {},
                     "leave --node out");
  }
  if (is_family(options.subject)) return explain_family(options);
  if (is_model(options.subject)) return explain_model(options);
  const Target target = target_of(options.target, options.threads);
  const AutoSchedulerOptionsScope scope(scheduler_of(options, target));
  return explain_kernel(options, make_problem(options.subject, dtype_of(options.dtype)), false,
                        nullptr, target);
}

}  // namespace heddle::cli
