#include "bench/bench_case.h"

#include <memory>
#include <optional>
#include <utility>

#include "driver/tolerance.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "measure/task/steps_hash.h"
#include "peers/ceilings.h"
#include "peers/interleave.h"
#include "subjects/peer_set.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

using Say = std::function<void(const std::string&)>;

// A kernel of Heddle with the arrays that it works on.
struct Built {
  Kernel kernel;
  std::vector<NDArray> arrays, outputs;
  void operator()() const { kernel.call(arrays); }
};

Built compile(const Problem& problem, const Schedule& schedule,
              const std::vector<NDArray>& inputs) {
  Built b;
  b.kernel = build(schedule, problem.args());
  b.outputs = problem.make_outputs();
  b.arrays = inputs;
  b.arrays.insert(b.arrays.end(), b.outputs.begin(), b.outputs.end());
  b();
  return b;
}

Difference compare_outputs(const Problem& problem, const NDArray& ours, const NDArray& reference) {
  const driver::Tolerance t =
      driver::rounding_tolerance(ComputeDag(problem.outputs), reference, problem.magnitude);
  return compare(ours, reference, t.rtol, t.atol);
}

class Case {
 public:
  Case(const Problem& problem, const std::vector<NDArray>& inputs, const CaseOptions& options,
       Say say)
      : problem_(problem),
        inputs_(inputs),
        options_(options),
        say_(std::move(say)),
        target_(options.target) {
    target_.cores = options.threads;
    scheduler_.threads = options.threads;
    result_.subject = problem.subject;
    result_.dtype = problem.dtype;
    result_.threads = options.threads;
    result_.bound = problem.bound;
    result_.flops = problem.flops;
    result_.bytes = problem.bytes;
  }

  CaseResult run() {
    const ScopedThreads threads(options_.threads);
    build_static();
    build_rules();
    build_tuned();
    if (options_.naive) run_naive();
    PeerSet peers(inputs_, options_.peers, options_.threads);
    if (problem_.peers) {
      say_("preparing peers");
      problem_.peers(peers);
    }
    for (const std::string& remark : peers.remarks()) result_.remarks.push_back(remark);
    verify(peers);
    time_all(peers);
    return std::move(result_);
  }

 private:
  // A kernel of Heddle that is to be checked and timed.
  struct Candidate {
    const char* name = "";
    std::optional<Built> built = {};
    std::string note = {};
    bool right = true;
    std::vector<std::string> verified = {};
  };

  std::optional<Built> attempt(const char* what, const std::function<Schedule()>& schedule) {
    try {
      return compile(problem_, schedule(), inputs_);
    } catch (const std::exception& error) {
      result_.failures.push_back(std::string(what) + " failed: " + error.what());
      return std::nullopt;
    }
  }

  void build_static() {
    say_("building the static schedule");
    AutoSchedulerOptions no_records = scheduler_;
    no_records.use_records = false;
    static_.built = attempt("static", [&] {
      Schedule schedule = create_schedule(problem_.outputs, target_, no_records);
      static_steps_ = measuring::steps_hash(schedule);
      return schedule;
    });
  }

  // Builds the static choice as it is without trees and with the default constants, where that is another schedule.
  void build_rules() {
    AutoSchedulerOptions rules = scheduler_;
    rules.use_records = rules.use_heuristics = false;
    try {
      const Schedule schedule = create_schedule(problem_.outputs, target_, rules);
      if (measuring::steps_hash(schedule) == static_steps_) return;
      rules_.built = attempt("rules", [&] { return schedule; });
    } catch (const std::exception& error) {
      result_.failures.push_back(std::string("rules failed: ") + error.what());
    }
  }

  // Builds the schedule of a record for this problem, where the log or tophub has one.
  void build_tuned() {
    const std::optional<Schedule> schedule =
        recorded_schedule(problem_.outputs, target_, scheduler_);
    if (!schedule) return;
    say_("building the tuned schedule");
    tuned_.note = schedule->provenance;
    tuned_.built = attempt("tuned", [&] { return *schedule; });
  }

  // A kernel cannot be stopped, so a hopeless one must not be started. The estimate is the speed of
  // a naive matrix product, which reads memory with large strides. Other naive kernels are about as
  // fast or faster.
  void run_naive() {
    constexpr double kFlopsPerSecond = 0.5e9;
    const double expected = problem_.flops / (kFlopsPerSecond * options_.threads);
    if (expected > options_.naive_limit_s) {
      result_.remarks.push_back("naive: not run, it would take about " + format_time(expected) +
                                " (--naive-limit)");
      return;
    }
    say_("running the naive schedule");
    const Timer timer;
    naive_ = attempt("naive", [&] { return naive_schedule(problem_.outputs, target_); });
    if (!naive_) return;
    const double first = timer.elapsed_s();
    // A slow kernel is timed once, alone. Rounds of it would take all the available time.
    if (first > 0.2) {
      const Timer again;
      (*naive_)();
      const double seconds = again.elapsed_s();
      if (seconds > 0.05) naive_seconds_ = seconds;
    }
  }

  void check(Candidate& mine, const std::string& name, const std::vector<NDArray>& reference) {
    if (!mine.built) return;
    bool right = true;
    for (size_t i = 0; i < reference.size(); ++i) {
      const NDArray ours = mine.built->outputs[i];
      // Libraries may drop or keep dimensions of extent 1.
      const Difference d = compare_outputs(problem_, ours, reference[i].view(ours.shape()));
      if (d.ok()) continue;
      right = false;
      result_.mismatches.push_back(std::string(mine.name) + " differs from " + name + ": " +
                                   describe(d, ours));
    }
    if (right) mine.verified.push_back(name);
    mine.right &= right;
  }
  void check_ours(const std::string& name, const std::vector<NDArray>& reference) {
    check(static_, name, reference);
    check(rules_, name, reference);
    check(tuned_, name, reference);
  }

  void verify(const PeerSet& peers) {
    if (!static_.built && !tuned_.built) return;
    say_("checking");
    if (naive_) check_ours("naive", naive_->outputs);
    for (const Peer& peer : peers.peers()) {
      if (!peer.result) continue;
      peer.run();
      check_ours(peer.name, {peer.result()});
    }
    if (static_.verified.empty() && tuned_.verified.empty() && result_.mismatches.empty()) {
      verify_by_interpreter();
    }
    result_.verified = static_.verified;
    result_.tuned_verified = tuned_.verified;
  }

  void verify_by_interpreter() {
    constexpr double kInterpretable = 2e7;
    if (problem_.flops > kInterpretable) {
      if (static_.built && tuned_.built) check(tuned_, "static", static_.built->outputs);
      result_.remarks.push_back("static: not verified, since nothing else computed the same");
      return;
    }
    std::vector<TensorValue> values;
    for (size_t i = 0; i < inputs_.size(); ++i) values.push_back({problem_.inputs[i], inputs_[i]});
    check_ours("the interpreter", interpret(problem_.outputs, values));
  }

  void time_all(const PeerSet& peers) {
    say_("timing");
    std::vector<peers::TimedCase> cases;
    std::vector<std::string> notes;
    auto add = [&](std::string name, std::function<void()> run, std::string note) {
      cases.push_back({std::move(name), std::move(run)});
      notes.push_back(std::move(note));
    };
    if (naive_ && naive_seconds_ == 0) add("naive", *naive_, "");
    // A kernel with wrong results gets no time.
    for (const Candidate* mine : {&static_, &rules_, &tuned_}) {
      if (mine->built && mine->right) add(mine->name, *mine->built, mine->note);
    }
    for (const Peer& peer : peers.peers()) add(peer.name, peer.run, peer.note);
    std::optional<peers::TrafficProbe> probe;
    if (problem_.bound != Bound::Compute) {
      using Kind = peers::TrafficProbe::Kind;
      probe.emplace(problem_.bound == Bound::Read ? Kind::kRead : Kind::kCopy, options_.threads,
                    static_cast<size_t>(problem_.bytes));
      add(
          "memory",
          [&] {
            parallel_for(options_.threads, [&](int64_t begin, int64_t end) {
              for (int64_t t = begin; t < end; ++t) probe->pass(static_cast<int>(t));
            });
          },
          "");
    }
    if (naive_seconds_ > 0) {
      result_.timings.push_back({"naive", naive_seconds_ * 1e3, "one run"});
    }
    peers::InterleaveOptions timing;
    timing.time_cap_seconds = options_.seconds * static_cast<double>(cases.size());
    const std::vector<peers::CaseTimes> times = peers::time_interleaved(cases, timing);
    for (size_t i = 0; i < times.size(); ++i) {
      if (probe && i + 1 == times.size()) {
        result_.memory_bytes_per_second = probe->bytes() / times[i].median_seconds;
        result_.memory_text = probe->text();
        continue;
      }
      result_.timings.push_back({times[i].name, times[i].median_seconds * 1e3, notes[i]});
    }
  }

  const Problem& problem_;
  const std::vector<NDArray>& inputs_;
  const CaseOptions& options_;
  Say say_;
  Target target_;
  AutoSchedulerOptions scheduler_ = current_auto_scheduler_options();
  Candidate static_{"static"}, rules_{"rules"}, tuned_{"tuned"};
  uint64_t static_steps_ = 0;
  std::optional<Built> naive_;
  double naive_seconds_ = 0;
  CaseResult result_;
};

}  // namespace

CaseResult run_case(const Problem& problem, const std::vector<NDArray>& inputs,
                    const CaseOptions& options, const Say& say) {
  return Case(problem, inputs, options, say).run();
}

}  // namespace heddle::cli
