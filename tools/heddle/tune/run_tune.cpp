#include "tune/run_tune.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "common/family.h"
#include "common/figures.h"
#include "common/machine.h"
#include "common/model_kernels.h"
#include "common/model_plan.h"
#include "common/output_file.h"
#include "common/run_sizes.h"
#include "common/tolerance.h"
#include "heddle/measure/fleet.h"
#include "heddle/network/tune.h"
#include "heddle/records/tophub.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/function_ref.h"
#include "options/parse_line.h"
#include "subjects/family_subject.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "support/files/file.h"
#include "support/table.h"
#include "tune/budget.h"
#include "tune/choice_text.h"
#include "tune/display.h"
#include "tune/interrupt.h"
#include "tune/network_race_place.h"
#include "tune/plan_output.h"
#include "tune/share.h"
#include "tune/summary.h"
#include "tune/tune_subjects.h"

namespace heddle::cli {
namespace {

// The exit status that shells give an interrupted program. The results are kept nevertheless.
// The exit status when the results were printed but are not all that was asked for: the log is
// incomplete, or tuning could not go on.
constexpr int kIncomplete = 1;

std::vector<Workload> subjects_of(const Request& request) {
  const DataType dtype = dtype_of(request.dtype.empty() ? "f32" : request.dtype);
  std::vector<Workload> subjects;
  for (const std::string& subject : request.subjects) subjects.push_back({subject, dtype});
  for (const std::string& list : request.workloads) {
    for (Workload w : workloads_of(list)) {
      // A requested type replaces that of the workload, except in workloads that are about their
      // type.
      if (w.dtype == f32) w.dtype = dtype;
      subjects.push_back(std::move(w));
    }
  }
  if (subjects.empty()) {
    throw_user_error("nothing to tune", {},
                     "name subjects (matmul:512x512x512) or a list (--workloads matmul); "
                     "`heddle list` shows both");
  }
  return subjects;
}

std::vector<std::string> names_of(const std::vector<Workload>& subjects) {
  std::vector<std::string> names;
  for (const Workload& w : subjects) names.push_back(w.subject);
  return names;
}

// Empty for the usual one, the evolutionary policy.
SearchPolicyFactory policy_of(const std::string& name) {
  return name == "random" ? make_random_policy : SearchPolicyFactory();
}

// Null where tuning makes its own model, which starts from the shipped one.
std::unique_ptr<CostModel> model_of(const Request& request) {
  if (request.model == "xgboost") return nullptr;
  if (request.model == "random") return make_random_model(request.seed);
  std::unique_ptr<CostModel> model =
      make_xgboost_model({.seed = request.seed, .target_kind = Target::parse(request.target).kind});
  model->load(request.model);
  return model;
}

// Measures the peaks in half a second at most. Sizes near each other share a measurement, and
// subjects that are left get none. A second measurement only raises a peak, because other programs
// can only lower it.
void measure_peaks(const TaskList& list, int threads, std::vector<TaskScale>* scales) {
  constexpr double kEnoughSeconds = 0.5;
  const Timer timer;
  Machine machine;
  for (size_t i = 0; i < scales->size(); ++i) {
    TaskScale& scale = (*scales)[i];
    if (scale.bound != Bound::Compute) continue;
    scale.peak = std::max(scale.peak, machine.fma(threads, list.dtypes[i]).per_second);
  }
  for (size_t i = 0; i < scales->size() && timer.elapsed_s() < kEnoughSeconds; ++i) {
    TaskScale& scale = (*scales)[i];
    if (scale.bound == Bound::Compute) continue;
    const auto bytes = static_cast<int64_t>(scale.work);
    scale.peak = std::max(scale.peak, machine.bandwidth(scale.bound, threads, bytes).per_second);
  }
}

// The peaks of a GPU come from its data sheet.
void data_sheet_peaks(const Gpu& gpu, const TaskList& list, std::vector<TaskScale>* scales) {
  const double lanes = 2.0 * gpu.sms * gpu.f32_lanes * gpu.clock_mhz * 1e6;
  for (size_t i = 0; i < scales->size(); ++i) {
    // The table of GPUs does not have the peaks of matrix units for other types.
    const bool known = list.dtypes[i] == f32;
    (*scales)[i].peak = (*scales)[i].bound != Bound::Compute ? gpu.bandwidth_gbs * 1e9
                        : known                              ? lanes
                                                             : 0;
  }
}

void check_tunable(const Target& target, const Request& request) {
  if (!request.fleet.empty() || !target.is_cuda()) return;  // the nodes of a fleet report their own
  const std::string reason = cuda::unavailable_reason();
  if (!reason.empty()) {
    throw_user_error("tuning for '" + to_string(target) + "' needs the GPU: " + reason, {},
                     "`heddle explain --target cuda` shows schedules and CUDA text without one");
  }
  if (target.runs_here()) return;
  throw_user_error("kernels for '" + to_string(target) + "' do not run on this machine's GPU", {},
                   "--target cuda names the one that is here");
}

bool above_peak(const std::vector<TaskRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const TaskRow& row) { return row.peak_share() > 1; });
}

/// The options that the kernels of the request are found by, for another command.
std::string kernel_options_text(const Request& request) {
  std::string out;
  if (request.threads > 0) out += " --threads " + std::to_string(request.threads);
  if (!request.dtype.empty()) out += " --dtype " + request.dtype;
  if (request.target != request_for("tune").target)
    out += " --target " + shell_word(request.target);
  return out;
}

std::string use_text(const TuneOutcome& outcome, const Request& request, const TaskList& list) {
  const TuneReport& report = outcome.report;
  if (!request.output.empty()) {
    const std::string plan = shell_word(request.output);
    return "the plan is in " + request.output + "; to use it:\n  heddle run " + plan +
           "\n  heddle export " + plan + " -o out\n";
  }
  if (report.log.empty() || report.unwritten > 0) return "";
  const std::string file = shell_word(report.log), subject = shell_word(outcome.subjects[0]);
  std::string out = "records are in " + report.log + "; to use them:\n  HEDDLE_LOG_FILE=" + file;
  // The parts of a network are kernels of their own, whereas bench builds the network as one
  // kernel.
  if (list.network && is_model(outcome.subjects[0])) {
    out += " heddle export " + subject + kernel_options_text(request) + " -o out";
  } else if (list.networks) {
    out += " for a program that builds the network (heddle/network/network.h)";
  } else {
    out += " heddle bench " + subject + kernel_options_text(request);
  }
  out += "\n  heddle report " + file + " -o report.html\n";
  if (list.network && is_model(outcome.subjects[0]))
    out += "with -o " + shell_word(plan_beside(outcome.subjects[0])) +
           " the same command writes a plan, which other commands find beside the model\n";
  return out;
}

// The number of threads of the request, or all cores.
int threads_of(const Request& request) {
  return request.threads > 0 ? request.threads : default_num_threads();
}

Target target_of(const Request& request) {
  Target target = Target::parse(request.target);
  check_tunable(target, request);
  // On a fleet the target describes the machines.
  if (!target.is_cuda() && (request.fleet.empty() || request.threads > 0))
    target.cores = threads_of(request);
  return target;
}

// The options of tuning except those of one run: model, clock and progress.
TuneOptions options_of(const Request& request, const std::vector<std::string>& names) {
  TuneOptions options;
  options.budget = std::chrono::duration<double>(parse_budget(request.budget));
  if (!request.until.empty()) options.until = parse_share(request.until);
  options.log = request.log.empty() ? default_log_name(names) : request.log;
  if (!request.json_file.empty() && request.json_file != "-") check_writable(request.json_file);
  options.policy = policy_of(request.policy);
  options.max_trials = request.trials;
  options.seed = request.seed;
  if (request.round > 0) options.batch = request.round;
  options.runs_at_once = request.at_once;
  options.warm_start = !request.no_warm_start;
  return options;
}

std::string first_line(const TuneOptions& options, const Target& target, size_t tasks) {
  return "tuning " + count_text(static_cast<int64_t>(tasks), "task") + " for " +
         clock_text(options.budget.count()) + " on " +
         (target.is_cuda() ? "a " + target.gpu.name : count_text(target.cores, "thread")) +
         (options.measurer != nullptr ? " of each " + fleet_resource(target) + " of a fleet" : "") +
         ", records go to " + options.log;
}

void write_json(const TuneOutcome& outcome, const std::string& path) {
  if (path == "-") {
    std::cout << to_json(outcome).dump(1) << std::endl;
  } else if (!path.empty()) {
    write_file_atomic(path, to_json(outcome).dump(1) + "\n");
  }
}

int exit_status(const TuneOutcome& outcome) {
  const TuneReport& report = outcome.report;
  if (report.cancelled) return kInterrupted;
  if (report.unwritten > 0) {
    std::cerr << "error: the log is incomplete: " << count_text(report.unwritten, "record")
              << " could not be written to " << report.log
              << "\n  results are those printed; make room, and tune again: it goes on from what is"
                 " in the log"
              << std::endl;
    return kIncomplete;
  }
  if (!report.failure.empty()) {
    std::cerr << "error: tuning could not go on: " << report.failure << "\n  results are those of "
              << count_text(report.trials, "trial") << " before it"
              << (report.log.empty() ? "" : "; tune again: it goes on from what is in the log")
              << std::endl;
    return kIncomplete;
  }
  return std::any_of(outcome.rows.begin(), outcome.rows.end(),
                     [](const TaskRow& row) { return row.best_seconds > 0; })
             ? 0
             : 1;
}

/// Mistakes in the options of ranges are reported before anything is tuned.
void check_sizes(const Request& request, const TaskList& list, const NetworkRacePlace& place) {
  if (request.sizes.empty()) return;
  if (list.dims.empty() || !place.here)
    throw_user_error("--sizes says at which sizes the kernels of one subject race on this machine",
                     {}, "give a dimension a range: net.onnx:batch=1..64");
  (void)histogram_of(request.sizes, list.dims);
}

/// The plan of the request; null where none is asked for.
std::unique_ptr<PlanOutput> plan_output(const Request& request,
                                        const std::vector<Workload>& subjects) {
  if (request.output.empty()) return nullptr;
  if (subjects.size() != 1 || !is_model(subjects[0].subject))
    throw_user_error("a plan is of one ONNX file", {},
                     "name one with -o, or leave -o out: records go to a log (--log)");
  return std::make_unique<PlanOutput>(request.output, subjects[0].subject,
                                      to_string(subjects[0].dtype));
}

/// Chooses the types of products for --tolerance, unless the plan has them.
void choose_types(const Request& request, const PlanOutput* plan, TaskList& list) {
  if (request.tolerance < 0 && request.data.empty() && request.types_json.empty()) return;
  if (!list.network)
    throw_user_error("--tolerance is of the outputs of one network", {},
                     "name an ONNX file: net.onnx:batch=1");
  std::error_code error;
  const bool goes_on = plan && std::filesystem::is_regular_file(plan->file(), error);
  const ScopedThreads threads(threads_of(request));
  const Network network = within_tolerance(
      request, goes_on ? list.network->with_plan(load_plan(plan->file())) : *list.network);
  const std::vector<Dim> dims = list.dims;
  list = tasks_of(network, list.dtypes.at(0));
  list.dims = dims;
}

/// What the machine can reach. The capabilities of other machines' CPUs are not known.
void find_peaks(const Target& target, bool by_fleet, int threads, TaskList* list) {
  if (target.is_cuda()) {
    data_sheet_peaks(target.gpu, *list, &list->scales);
  } else if (!by_fleet) {
    measure_peaks(*list, threads, &list->scales);
  }
}

/// The machines that measure; null where this one does.
std::unique_ptr<Measurer> fleet_of(const Request& request, const Target& target) {
  if (request.fleet.empty()) return nullptr;
  return make_fleet_measurer({.target = target,
                              .address = request.fleet,
                              .resource = request.fleet_device,
                              .join_seconds = request.fleet_wait_seconds});
}

TuneDisplay::Mode mode_of(const Request& request, const TuneOutput& output) {
  if (request.quiet) return TuneDisplay::Mode::Quiet;
  return output.live ? TuneDisplay::Mode::Live : TuneDisplay::Mode::Lines;
}

/// The width of the summary, in characters.
int columns_of(const TuneOutput& output) {
  return output.live ? std::max(terminal_size(output.descriptor).columns - 1, 1) : INT_MAX;
}

/// What is printed before tuning begins.
std::string opening_text(const TuneOptions& options, const Target& target, const TaskList& list,
                         const TuneOutcome& outcome, const std::string& remark) {
  return first_line(options, target, list.tasks.size()) + "\n" + choices_text(outcome.choices) +
         (remark.empty() ? "" : remark + "\n");
}

/// The part of the command that measures, with its display.
class TuneRun {
 public:
  /// `options` have a clock. `list` gets the tasks of the network that is tuned, and the peaks.
  TuneRun(const Request& request, const TuneOutput& output, TuneOptions& options, TaskList& list,
          const Tuner& tuner)
      : request_(request),
        output_(output),
        options_(options),
        list_(list),
        tuner_(tuner),
        interrupt_(std::in_place, *options.clock) {
    options_.progress = [this](const TuneProgress& p) {
      display_->show(p, options_.clock->cancelled());
    };
  }

  void tune_kernels() {
    begin("");
    outcome_.report = tuner_(std::move(list_.tasks), options_);
    outcome_.report.cancelled = outcome_.report.cancelled || options_.clock->cancelled();
    end();
  }

  /// `plan` may be null.
  void tune_network(const NetworkRacePlace& place, const std::string& subject,
                    const PlanOutput* plan) {
    NetworkTuneOptions how;
    if (plan) how.plan_file = plan->file();
    how.plan_of_others = request_.plan_of_others;
    how.dims = list_.dims;
    how.sizes.max_kernels = request_.max_kernels;
    how.sizes.histogram = histogram_of(request_.sizes, list_.dims);
    how.race_here = place.here;
    how.subject = subject;
    how.tune_tasks = tuner_;
    how.chosen = [&](const Network& chosen, const PassChoice& choices) {
      outcome_.choices = choices;
      list_ = tasks_of(chosen, list_.dtypes.at(0));
      list_.dims = how.dims;
      begin(place.words);
    };
    how.racing_sizes = [&] {
      end();
      if (!request_.quiet) output_.out << "racing the kernels at several sizes" << std::endl;
    };
    tuned_ = heddle::tune_network(Network(*list_.network), options_, how);
    end();
    outcome_.report = tuned_->report;
    outcome_.kernels = tuned_->kernels;
    if (!place.words.empty()) outcome_.report.remarks.push_back(place.words);
  }

  const TuneOutcome& outcome() const { return outcome_; }
  const TunedNetwork& tuned() const { return *tuned_; }  ///< after tune_network

 private:
  /// `remark` is on where the network is raced.
  void begin(const std::string& remark) {
    find_peaks(*options_.target, options_.measurer != nullptr, threads_of(request_), &list_);
    if (!request_.quiet)
      output_.out << opening_text(options_, *options_.target, list_, outcome_, remark)
                  << std::flush;
    display_.emplace(
        mode_of(request_, output_), output_.out,
        [descriptor = output_.descriptor] { return terminal_size(descriptor); },
        options_.budget.count(), list_.scales);
  }

  /// Ctrl-C ends the program from here on.
  void end() {
    interrupt_.reset();
    display_->clear();
  }

  const Request& request_;
  const TuneOutput& output_;
  TuneOptions& options_;
  TaskList& list_;
  const Tuner& tuner_;
  std::optional<InterruptScope> interrupt_;
  std::optional<TuneDisplay> display_;
  TuneOutcome outcome_;
  std::optional<TunedNetwork> tuned_;
};

/// Sets the rows of the table. Peaks that a row exceeds are measured again where `peaks_are_here`.
void set_rows(TaskList& list, bool peaks_are_here, int threads, TuneOutcome* outcome) {
  outcome->rows = task_rows(outcome->report, list.calls, list.scales);
  if (!peaks_are_here || !above_peak(outcome->rows)) return;
  measure_peaks(list, threads, &list.scales);
  outcome->rows = task_rows(outcome->report, list.calls, list.scales);
}

/// Prints and writes the results. Returns the exit status.
int finish(const Request& request, const TuneOutput& output, const TaskList& list,
           const TuneOutcome& outcome, FunctionRef<void()> save_plan) {
  std::ostream& out = output.out;
  if (!request.quiet)
    out << summary_text(outcome, columns_of(output)) << kernels_text(outcome.kernels);
  write_json(outcome, request.json_file);
  save_plan();
  if (!request.quiet) out << use_text(outcome, request, list) << std::flush;
  return exit_status(outcome);
}

}  // namespace

int run_tune(const Request& request, const TuneOutput& output, const Tuner& tuner) {
  const std::vector<Workload> subjects = subjects_of(request);
  const std::vector<std::string> names = names_of(subjects);
  TuneOptions options = options_of(request, names);
  const std::unique_ptr<PlanOutput> plan = plan_output(request, subjects);
  const LogFile log(options.log);
  (void)tophub_files();  // throws where the user's own log is not there
  const std::unique_ptr<CostModel> model = model_of(request);
  options.model = model.get();
  const int threads = threads_of(request);
  const Target target = target_of(request);
  options.target = target;
  const std::unique_ptr<Measurer> fleet = fleet_of(request, target);
  if (fleet) options.measurer = fleet.get();
  TaskList list = tasks_of(subjects, target);
  choose_types(request, plan.get(), list);
  const NetworkRacePlace place = network_race_place(target, fleet != nullptr);
  check_sizes(request, list, place);
  TuneClock clock(options.budget.count());
  options.clock = &clock;
  const ScopedThreads scoped_threads(threads);
  TuneRun run(request, output, options, list, tuner);
  if (list.network)
    run.tune_network(place, names[0], plan.get());
  else
    run.tune_kernels();
  TuneOutcome outcome = run.outcome();
  set_rows(list, !target.is_cuda() && !fleet, threads, &outcome);
  outcome.budget_seconds = options.budget.count();
  outcome.target = to_string(target);
  outcome.subjects = names;
  return finish(request, output, list, outcome, [&] {
    if (plan) plan->save(plan_of(run.tuned()));
  });
}

int run_tune(const Request& request) {
  if (std::any_of(request.subjects.begin(), request.subjects.end(), is_family))
    return tune_family_subject(request);
  // Output for programs and output for readers must not be mixed.
  const bool to_stderr = request.json_file == "-";
  const int descriptor = to_stderr ? STDERR_FILENO : STDOUT_FILENO;
  return run_tune(request,
                  {to_stderr ? std::cerr : std::cout, descriptor, is_live_terminal(descriptor)},
                  [](std::vector<TuneTask> tasks, const TuneOptions& options) {
                    return tune_tasks(std::move(tasks), options);
                  });
}

}  // namespace heddle::cli
