#include "bench/bench_models.h"

#include <algorithm>
#include <ostream>

#include "bench/in_turns.h"
#include "common/figures.h"
#include "common/model_plan.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "network/run/output_difference.h"
#include "options/parse_line.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

bool is_network_file(const std::string& subject) { return is_model(subject) || is_plan(subject); }

}  // namespace

Request bench_request(const Request& options, const std::string& subject, int threads) {
  Request o = request_for("run");
  o.subject = subject;
  o.threads = threads;
  o.target = options.target;
  if (!options.dtypes.empty()) o.dtype = options.dtypes[0];
  open_plan(o);
  return o;
}

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
      const Request o = bench_request(options, subject, threads);
      const Target target = target_of(o.target, o.threads);
      const OnnxModel model = import_subject(o.subject, dtype_of(o.dtype));
      const ScopedThreads scope(network::race_threads(target));
      AutoSchedulerOptions rules = current_auto_scheduler_options();
      rules.use_records = false;
      const Network rule(model.outputs, target, rules, {}, model.updates);
      const Network planned = model_network(o, model.outputs, target, model.updates);
      const std::vector<NDArray> arrays = network::random_arrays(model.args());
      const NetworkKernel by_rule = rule.build(model.args()), by_plan = planned.build(model.args());
      const TurnTimes t = time_in_turns(
          {[&] { by_rule.call(arrays); }, [&] { by_plan.call(arrays); }}, options.seconds, target);
      table.add_row({o.subject, std::to_string(target.cores), format_time(t.seconds[0]),
                     format_time(t.seconds[1]), ratio(t.seconds[0] / t.seconds[1]),
                     std::to_string(t.rounds)});
      all.push_back(Json::object({{"model", o.subject},
                                  {"plan", o.plan},
                                  {"threads", target.cores},
                                  {"rounds", t.rounds},
                                  {"rule_seconds", t.seconds[0]},
                                  {"plan_seconds", t.seconds[1]}}));
    }
  }
  out << table.to_string() << std::flush;
  return all;
}

}  // namespace heddle::cli
