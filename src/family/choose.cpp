#include "heddle/family/choose.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

#include "driver/gpu_seconds.h"
#include "family/blocks.h"
#include "family/boundaries.h"
#include "family/near.h"
#include "family/points.h"
#include "family/result.h"
#include "family/select.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/function_ref.h"
#include "runtime/pool/for_each_task.h"
#include "runtime/race/race.h"

namespace heddle {
namespace {

struct Candidate {
  FamilyVariant variant;
  Kernel kernel;
};

class FamilyChooser {
 public:
  FamilyChooser(const std::vector<Dim>& dims, const std::vector<Tensor>& args,
                const FamilyOptions& options)
      : dims_(dims), args_(args), options_(options) {
    for (const Tensor& t : args) {
      if (!t) throw_user_error("an argument of a family is a Tensor that was never assigned");
      if (!t.op()->is_placeholder()) outputs_.push_back(t);
    }
    check_dims();
  }

  FamilyResult run() {
    add_candidates();
    build_candidates();
    if (candidates_.empty()) throw refused_.value();
    const std::vector<FamilyPoint> points = family::race_points(dims_, options_);
    std::vector<family::Raced> raced;
    for (const FamilyPoint& p : points) raced.push_back(race(p, points.size()));
    return result(points, raced);
  }

 private:
  void check_dims() const {
    const std::vector<Var> used = sizes_of(outputs_);
    const auto same = [](const Var& v) {
      return [&](const Dim& d) { return d.variable().same_as(v); };
    };
    for (const Var& v : used) {
      if (std::none_of(dims_.begin(), dims_.end(), same(v)))
        throw_user_error("the dimension '" + v->name + "' of the declaration is not listed", {},
                         "list all dimensions, in the order in which sizes are given");
    }
    for (const Dim& d : dims_) {
      if (std::none_of(used.begin(), used.end(),
                       [&](const Var& v) { return d.variable().same_as(v); }))
        throw_user_error("the declaration does not use the dimension '" + d.name() + "'");
    }
    if (dims_.empty()) throw_user_error("a family has at least one dimension");
  }

  std::vector<SizeValue> values(const FamilyPoint& p) const {
    std::vector<SizeValue> out;
    for (size_t i = 0; i < dims_.size(); ++i) out.emplace_back(dims_[i], p.sizes[i]);
    return out;
  }
  std::string name_of(const FamilyPoint& p) const {
    std::string name;
    for (size_t i = 0; i < dims_.size(); ++i)
      name += (i ? "," : "") + dims_[i].name() + "=" + std::to_string(p.sizes[i]);
    return name;
  }
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  Target target() const { return options_.target.value_or(Target::host()); }

  /// Adds the static choice at each point, and the caller's candidates where there are any.
  void add_candidates() {
    const std::vector<FamilyPoint> points = family_points(dims_, options_);
    std::vector<Instance> at;
    for (const FamilyPoint& p : points) {
      std::vector<SizeValue> near = values(p);
      unless_refused(p, [&] { near = add_static(p, false); });
      if (options_.scheduler.use_alternatives && !target().is_cuda())
        unless_refused(p, [&] { add_static(p, true); });
      if (options_.choose) at.push_back(at_sizes(outputs_, near));
    }
    if (!options_.choose) return;
    say("tuning at " + std::to_string(at.size()) + " sizes");
    std::vector<Schedule> others;
    try {
      others = options_.choose(at);
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
      problems_.push_back("tuning failed, and the static choices remain: " + e.message);
      say(problems_.back());
      return;
    }
    if (others.size() != points.size())
      throw_user_error("FamilyOptions::choose returned " + std::to_string(others.size()) +
                       " schedules for " + std::to_string(points.size()) + " sizes");
    for (size_t i = 0; i < points.size(); ++i)
      unless_refused(points[i], [&] { add_forms(points[i], " tuned", others[i]); });
  }

  /// Returns the sizes that the choice was made at.
  std::vector<SizeValue> add_static(const FamilyPoint& p, bool alternatives) {
    AutoSchedulerOptions o = options_.scheduler;
    o.use_alternatives = alternatives;
    const std::vector<family::NearChoice> choices =
        family::choices_for_range(outputs_, values(p), target(), o);
    for (const family::NearChoice& near : choices) {
      const std::string& name = near.schedule.dag().alternative();
      const bool other = &near != &choices[0];
      add_forms(p,
                (name.empty() ? "" : " " + name) + (other ? " " + family::sizes_text(near.at) : ""),
                near.schedule);
    }
    return choices[0].at;
  }

  /// A schedule for all sizes, and the same with other blocks.
  void add_forms(const FamilyPoint& p, const std::string& how, const Schedule& one) {
    for (family::BlockForm& form : family::block_forms(one, outputs_)) {
      if (form.schedule) add_candidate(p, how + form.name, *std::move(form.schedule));
    }
  }

  void unless_refused(const FamilyPoint& p, FunctionRef<void()> add) {
    try {
      add();
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
      refused_.emplace(e.kind, "chosen at " + name_of(p) + ": " + e.message, e.where, e.help);
      say(refused_->message);
    }
  }

  void add_candidate(const FamilyPoint& p, const std::string& how, Schedule s) {
    const std::string steps = family::identity(s);
    if (std::find(steps_.begin(), steps_.end(), steps) != steps_.end()) return;
    steps_.push_back(steps);
    say("chosen at " + name_of(p) + how + ": " + s.provenance);
    candidates_.push_back({{name_of(p) + how, p.sizes, std::move(s)}, {}});
  }

  /// Drops candidates that cannot be built.
  void build_candidates() {
    std::vector<std::exception_ptr> errors(candidates_.size());
    for_each_task(candidates_.size(), [&](size_t i) {
      try {
        candidates_[i].kernel = build(candidates_[i].variant.schedule, args_, options_.build);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
    std::vector<Candidate> made;
    for (size_t i = 0; i < errors.size(); ++i) {
      unless_refused({candidates_[i].variant.chosen_at}, [&] {
        if (errors[i]) std::rethrow_exception(errors[i]);
        made.push_back(std::move(candidates_[i]));
      });
    }
    candidates_ = std::move(made);
  }

  /// The times of all candidates at a point.
  family::Raced race(const FamilyPoint& p, size_t points) const {
    std::vector<int> all(candidates_.size());
    std::iota(all.begin(), all.end(), 0);
    family::Raced raced{{}, p.weight, {}};
    for (const SizeValue& v : values(p)) raced.sizes.push_back(v.value);
    raced.seconds = times_near(p, all, options_.race_seconds / static_cast<double>(points));
    say("raced at " + name_of(p));
    return raced;
  }

  /// The times at a point. For a GPU the geometric means of those at the point and at odd sizes
  /// next to it: a size may be a multiple of the vectors of one kernel, and most are not.
  std::vector<double> times_near(const FamilyPoint& p, const std::vector<int>& candidates,
                                 double budget) const {
    const FamilyPoint odd = family::odd_point(dims_, p);
    if (!target().is_cuda() || odd.sizes == p.sizes) return times(p, candidates, budget);
    std::vector<double> seconds = times(p, candidates, budget / 2);
    const std::vector<double> others = times(odd, candidates, budget / 2);
    for (size_t i = 0; i < seconds.size(); ++i) seconds[i] = std::sqrt(seconds[i] * others[i]);
    return seconds;
  }

  /// The times of some candidates: the least of the medians of three rounds, in each of which they
  /// take turns. One that takes more than twice as long as the best one leaves the race.
  std::vector<double> times(const FamilyPoint& p, const std::vector<int>& candidates,
                            double budget) const {
    constexpr int kRounds = 3;
    constexpr double kHopeless = 2;
    const Instance at = at_sizes(outputs_, values(p));
    std::vector<NDArray> arrays;
    for (const Tensor& t : at.of(args_)) {
      arrays.push_back(t.op()->is_placeholder()
                           ? NDArray::random(t.extents(), t.dtype(), arrays.size() + 1)
                           : NDArray::zeros(t.extents(), t.dtype()));
    }
    const auto sets = target().is_cuda() ? driver::gpu_sets(arrays) : driver::GpuSets();
    const double each = budget / static_cast<double>(kRounds * candidates.size());
    racing::Field field(candidates.size(), {.most_rounds = kRounds,
                                            .hopeless = kHopeless,
                                            .against = racing::Against::Leader,
                                            .summary = racing::Summary::Least,
                                            .fewest_racing = 1});
    const auto sample = [&](size_t c) {
      const Kernel& kernel = candidates_[static_cast<size_t>(candidates[c])].kernel;
      return sets.empty() ? measure([&] { kernel.call(arrays); }, each).median_s
                          : driver::gpu_seconds(kernel, sets, each);
    };
    racing::run(field, sample, {});
    return field.times();
  }

  /// The thresholds of a tree on one size are where the race says, and not only between two points.
  void find_boundaries(family::Kept& kept, const std::vector<family::Raced>& raced) const {
    if (dims_.size() != 1) return;
    std::vector<int64_t> sizes;
    for (const family::Raced& r : raced) sizes.push_back(r.sizes[0]);
    std::sort(sizes.begin(), sizes.end());
    // A quarter of the race's time for all bisections between neighbouring sizes.
    int64_t longest = 2;
    for (size_t i = 1; i < sizes.size(); ++i) longest = std::max(longest, sizes[i] - sizes[i - 1]);
    const double steps =
        static_cast<double>(kept.candidates.size()) * std::log2(static_cast<double>(longest));
    const double budget = options_.race_seconds / 4 / steps;
    family::find_boundaries(kept.result.tree, sizes, [&](int below, int above, int64_t size) {
      const std::vector<int> two = {kept.candidates[static_cast<size_t>(below)],
                                    kept.candidates[static_cast<size_t>(above)]};
      const std::vector<double> s = times_near({{size * dims_[0].multiple()}}, two, budget);
      say("raced two at " + dims_[0].name() + " = " + std::to_string(size * dims_[0].multiple()));
      return s[0] <= s[1];
    });
  }

  FamilyResult result(const std::vector<FamilyPoint>& points,
                      const std::vector<family::Raced>& raced) {
    std::vector<FamilyVariant> variants;
    for (const Candidate& c : candidates_) variants.push_back(c.variant);
    family::Kept kept =
        family::keep_best(dims_, variants, points, raced, std::max(1, options_.max_kernels));
    find_boundaries(kept, raced);
    std::vector<FamilyKernel::Variant> kernels;
    for (const int c : kept.candidates) {
      const Candidate& one = candidates_[static_cast<size_t>(c)];
      kernels.push_back({one.variant.name, one.kernel});
    }
    kept.result.kernel = FamilyKernel(std::move(kernels), kept.result.tree);
    kept.result.problems = std::move(problems_);
    return std::move(kept.result);
  }

  const std::vector<Dim>& dims_;
  const std::vector<Tensor>& args_;
  const FamilyOptions& options_;
  std::vector<Tensor> outputs_;
  std::vector<Candidate> candidates_;
  std::vector<std::string> steps_;     ///< steps of the candidates
  std::optional<Error> refused_;       ///< why the last schedule was refused
  std::vector<std::string> problems_;  ///< of the result
};

}  // namespace

FamilyResult choose_family(const std::vector<Dim>& dims, const std::vector<Tensor>& args,
                           const FamilyOptions& options) {
  return FamilyChooser(dims, args, options).run();
}

}  // namespace heddle
