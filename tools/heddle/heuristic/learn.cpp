// heddle learn: measures, trains and installs what decides in place of the rules on this machine.
#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.h"
#include "common/figures.h"
#include "common/progress.h"
#include "heddle/heuristics/learn.h"
#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"
#include "network/race/call_timer.h"
#include "subjects/model_subject.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"
#include "support/hashing/hash.h"
#include "support/hashing/hex.h"
#include "tune/budget.h"
#include "tune/interrupt.h"

namespace heddle::cli {
namespace {

bool is_log(const std::string& from) { return from.ends_with(".jsonl"); }

/// The declarations of the nodes of a network, each once.
void add_nodes(const std::string& subject, const Request& o, const Target& target,
               std::vector<DrawnProblem>& problems) {
  const DataType dtype = dtype_of(o.dtype);
  const Problem problem =
      is_model(subject) ? model_problem(subject, dtype) : make_problem(subject, dtype);
  if (!problem.dims.empty())
    throw_user_error("'" + subject + "' is over ranges of sizes", {},
                     "give its dimensions one size each: --from net.onnx:batch=1");
  const Network network(problem.outputs, target, current_auto_scheduler_options(), {},
                        problem.updates);
  for (const TuneTask& task : network.tasks()) {
    const ComputeDag& dag = task.tmpl.dag().direct();
    problems.push_back(
        {.id = task.name + "@" + to_hex(dag.structural_hash()), .outputs = dag.outputs()});
  }
}

LearnOptions options_of(const Request& o, const Target& target) {
  LearnOptions options;
  options.target = target;
  options.heuristics = o.heuristics;
  options.seed = o.seed;
  options.date = today();
  std::vector<std::string> logs;
  for (const std::string& from : o.from) {
    if (!is_log(from)) {
      add_nodes(from, o, target, options.first);
      continue;
    }
    if (!std::filesystem::is_regular_file(from))
      throw_user_error("--from names '" + from + "', and there is no such log", {},
                       "`heddle tune --log " + from + "` makes one");
    logs.push_back(from);
  }
  if (!logs.empty()) {
    options.known = [read = std::make_shared<const TuningLogs>(read_tuning_logs(logs)),
                     chip = target.chip()](const Heuristic& h) {
      return std::vector<HeuristicData>{data_from_records(*read, h.name, chip)};
    };
  }
  return options;
}

std::string line_of(const LearnProgress& p) {
  return p.heuristic + ": " + count_text(p.collect.collected + p.collect.earlier, "problem") +
         ", " + clock_text(p.left_seconds) + " left" +
         (p.collect.problem.empty() ? "" : ": " + p.collect.problem);
}

int show(const LearnReport& report, const Request& o) {
  std::cout << (o.json ? report.to_json().dump(1) + "\n" : report.to_text());
  return 0;
}

int forget(const Target& target, const Request& o) {
  const std::vector<std::string> removed = forget_learned(target);
  if (o.json) {
    std::cout << Json::object({{"removed", Json::array_of(removed)}}).dump(1) << "\n";
    return 0;
  }
  for (const std::string& file : removed) std::cout << "removed " << file << "\n";
  if (removed.empty()) std::cout << "nothing was learned for " << target.chip() << "\n";
  return 0;
}

}  // namespace

int run_learn(const Request& o) {
  if (o.show_learned || o.forget) {
    const Target target = target_of(o.target, o.threads);
    return o.forget ? forget(target, o) : show(learned(target), o);
  }
  if (!o.cores.empty()) pin_to_cores(o.cores);
  const Target target =
      o.conclude ? target_of(o.target, o.threads) : target_to_learn(o.target, o.threads);
  LearnOptions options = options_of(o, target);
  options.measure = !o.conclude;
  TuneClock clock(parse_budget(o.budget));
  options.clock = &clock;
  const ScopedThreads threads(network::race_threads(target));
  Progress progress;
  options.progress = shown_by<LearnProgress>(progress, o.quiet, line_of);
  LearnReport report;
  {
    const InterruptScope interrupt(clock);
    report = learn(options);
  }
  progress.clear();
  show(report, o);
  return report.cancelled ? kInterrupted : 0;
}

}  // namespace heddle::cli
