#include "bench/bench_models.h"

#include <algorithm>
#include <ostream>

#include "common/figures.h"
#include "common/model_plan.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/run/output_difference.h"
#include "options/parse_line.h"
#include "runtime/race/race.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

bool is_network_file(const std::string& subject) { return is_model(subject) || is_plan(subject); }

/// The medians of calls in turns, in seconds.
struct Times {
  double by_rule = 0, by_plan = 0;
  int rounds = 0;
};

Times time_in_turns(const Network& rule, const Network& planned, const OnnxModel& model,
                    double seconds) {
  const std::vector<NDArray> arrays = network::random_arrays(model.args());
  const NetworkKernel kernels[] = {rule.build(model.args()), planned.build(model.args())};
  for (const NetworkKernel& kernel : kernels) kernel.call(arrays);
  racing::Field field(2, {.fewest_rounds = 3});
  const Timer clock;
  Times times;
  times.rounds = racing::run(field,
                             [&](size_t i) {
                               const Timer call;
                               kernels[i].call(arrays);
                               return call.elapsed_s();
                             },
                             {.enough = [&](int) { return clock.elapsed_s() > seconds; },
                              .decided = [](int) { return false; }});
  times.by_rule = field.time(0);
  times.by_plan = field.time(1);
  return times;
}

}  // namespace

bool are_models(const Request& options) {
  const auto models =
      std::count_if(options.subjects.begin(), options.subjects.end(), is_network_file);
  if (models == 0) return false;
  if (models < std::ssize(options.subjects) || !options.workloads.empty())
    throw_user_error("models are timed beside rules, and other subjects beside libraries", {},
                     "time them in two runs of `heddle bench`");
  return true;
}

Json bench_models(const Request& options, std::ostream& out) {
  Table table({"model", "threads", "by rule", "by plan", "", "rounds"});
  Json all = Json::array();
  for (const std::string& subject : options.subjects) {
    for (const int threads :
         options.thread_counts.empty() ? std::vector{0} : options.thread_counts) {
      Request o = request_for("run");
      o.subject = subject;
      o.threads = threads;
      o.target = options.target;
      if (!options.dtypes.empty()) o.dtype = options.dtypes[0];
      open_plan(o);
      const Target target = target_of(o.target, o.threads);
      const OnnxModel model = import_subject(o.subject, dtype_of(o.dtype));
      if (!model.dims.empty())
        throw_user_error("'" + o.subject + "' is over ranges of sizes", {},
                         "`heddle run " + subject + " --sizes` times it at some of them");
      const ScopedThreads scope(target.cores);
      AutoSchedulerOptions rules = current_auto_scheduler_options();
      rules.use_records = false;
      const Network rule(model.outputs, target, rules);
      const Network planned = model_network(o, model.outputs, target);
      const Times t = time_in_turns(rule, planned, model, options.seconds);
      table.add_row({o.subject, std::to_string(target.cores), format_time(t.by_rule),
                     format_time(t.by_plan), ratio(t.by_rule / t.by_plan),
                     std::to_string(t.rounds)});
      all.push_back(Json::object({{"model", o.subject},
                                  {"plan", o.plan},
                                  {"threads", target.cores},
                                  {"rounds", t.rounds},
                                  {"rule_seconds", t.by_rule},
                                  {"plan_seconds", t.by_plan}}));
    }
  }
  out << table.to_string() << std::flush;
  return all;
}

}  // namespace heddle::cli
