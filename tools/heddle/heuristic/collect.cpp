#include <iostream>

#include "commands.h"
#include "common/figures.h"
#include "common/output_file.h"
#include "common/progress.h"
#include "heddle/heuristics/collect.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"
#include "network/race/call_timer.h"
#include "subjects/target_text.h"
#include "support/log.h"
#include "tune/budget.h"
#include "tune/interrupt.h"

namespace heddle::cli {

Target target_to_learn(const std::string& text, int threads) {
  const Target target = target_of(text, threads);
  if (target.runs_here()) return target;
  const std::string why = target.is_cuda() ? cuda::unavailable_reason() : "";
  throw_user_error("kernels for '" + to_string(target) + "' do not run on this machine" +
                       (why.empty() ? "" : ": " + why),
                   {}, "collect on the machine that is to be learned");
}

namespace {

Target target_for(const Heuristic& heuristic, const Request& o) {
  const std::string text = !o.target.empty()                 ? o.target
                           : heuristic.target_kind == "cuda" ? "cuda"
                                                             : "llvm -mcpu=native";
  return target_to_learn(text, o.threads);
}

std::string line_of(const CollectProgress& p) {
  return count_text(p.collected, "problem") +
         (p.earlier > 0 ? " and " + std::to_string(p.earlier) + " from before" : "") + ", " +
         clock_text(p.left_seconds) + " left" + (p.problem.empty() ? "" : ": " + p.problem);
}

Json to_json(const CollectReport& r, const Request& o) {
  return Json::object({{"heuristic", o.name},
                       {"log", o.log},
                       {"collected", r.collected},
                       {"earlier", r.earlier},
                       {"skipped", r.skipped},
                       {"failed", r.failed},
                       {"ended", to_string(r.ended)},
                       {"problems", Json::array_of(r.problems)}});
}

}  // namespace

int collect_for_heuristic(const Request& o) {
  if (!o.cores.empty()) pin_to_cores(o.cores);
  const Heuristic& heuristic = heuristic_of(o.name);
  CollectOptions options;
  options.log = o.log;
  const LogFile log(options.log);
  options.target = target_for(heuristic, o);
  options.seed = o.seed;
  options.problems = o.problems;
  options.machine = o.machine;
  options.turns = o.turns;
  TuneClock clock(parse_budget(o.budget));
  options.clock = &clock;
  const ScopedThreads threads(network::race_threads(options.target));
  Progress progress;
  options.progress = shown_by<CollectProgress>(progress, o.quiet, line_of);
  CollectReport report;
  {
    const InterruptScope interrupt(clock);
    report = collect(heuristic, options);
  }
  progress.clear();
  if (o.json) {
    std::cout << to_json(report, o).dump(1) << "\n";
  } else if (!o.quiet) {
    std::cout << count_text(report.collected, "problem") << " collected in " << options.log
              << (report.earlier > 0 ? ", beside " + std::to_string(report.earlier) : "")
              << "; to train:\n  heddle heuristic train " << o.name << " --log " << options.log
              << " -o " << options.target.kind << "-" << options.target.chip() << "." << o.name
              << ".tree\n";
    if (report.failed > 0)
      std::cout << count_text(report.failed, "problem") << " failed, such as "
                << report.problems.front() << "\n";
  }
  if (clock.cancelled()) return kInterrupted;
  return report.collected + report.earlier > 0 ? 0 : 1;
}

}  // namespace heddle::cli
