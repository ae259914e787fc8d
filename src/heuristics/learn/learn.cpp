// Measures, trains and installs, for all heuristics of a machine.
#include "heddle/heuristics/learn.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "heddle/heuristics/train_tree.h"
#include "heddle/records/tophub.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "heuristics/asked_problems.h"
#include "heuristics/learn/calibrate.h"
#include "heuristics/learn/constants_file.h"
#include "heuristics/learn/learned_certificates.h"
#include "heuristics/learn/learned_files.h"
#include "heuristics/learn/races.h"
#include "heuristics/train/confidence.h"
#include "heuristics/train/evaluate.h"
#include "heuristics/train/usable_problems.h"
#include "heuristics/trees/tree_file.h"

namespace heddle {

using namespace learning;
namespace {

// The time is spent in slices, so that a run that is stopped has something of each heuristic.
constexpr int kSlicesEach = 3;

// Calibration comes after the budget, as training does, and may take this share of the time so far, or so many seconds.
constexpr double kCalibrationShare = 0.3, kCalibrationSeconds = 30;

std::vector<const Heuristic*> heuristics_of(const LearnOptions& o) {
  std::vector<const Heuristic*> all;
  for (const std::string& name : o.heuristics) all.push_back(&heuristic_of(name));
  if (!o.heuristics.empty()) return all;
  for (const Heuristic* h : all_heuristics()) {
    if (h->target_kind == o.target.kind && h->draw) all.push_back(h);
  }
  if (all.empty())
    throw_user_error("no heuristic of targets of kind '" + o.target.kind + "' draws problems");
  return all;
}

/// The gain that makes a tree worth having. Measurements of two schedules of equal speed differ by as much.
constexpr double kLeastGain = 0.005;

/// Whether the held-out answers are faster than the rule by kLeastGain and more than chance.
bool is_proven(const TreeEvaluation& worth) {
  std::vector<double> losses;
  for (const EvaluatedProblem& p : worth.problems) losses.push_back(std::log(p.seconds / p.rule));
  if (losses.size() < 2) return false;
  const double variance = squared_deviations(losses) / static_cast<double>(losses.size() - 1);
  return mean_bound(losses, {.variance = variance}, TrainOptions().confidence) <
         -std::log(1 + kLeastGain);
}

class Learner {
 public:
  explicit Learner(const LearnOptions& o)
      : o_(o),
        files_(o.target, o.folder),
        own_clock_(o.budget.count()),
        clock_(o.clock != nullptr ? *o.clock : own_clock_),
        heuristics_(heuristics_of(o)),
        certificates_(o.target, files_.certificates(), o.date) {
    files_.make_folder();
    if (o_.measurer == nullptr && o_.measure)
      own_measurer_ = o_.target.is_cuda() ? make_cuda_measurer({}) : make_worker_measurer();
  }

  LearnReport run() {
    LearnReport report;
    report.folder = files_.folder();
    for (const Heuristic* h : heuristics_) report.lessons.push_back({.heuristic = h->name});
    for (const Heuristic* h : all_heuristics()) {
      if (h->target_kind == o_.target.kind)
        std::ranges::move(files_.set_aside(*h), std::back_inserter(report.set_aside));
    }
    collect_all(report.lessons);
    std::optional<std::vector<MovedConstant>> moved = calibrate_all();
    report.constants = moved ? *moved : read_moved(files_.constants(), o_.target.kind);
    for (std::size_t i = 0; i < heuristics_.size(); ++i) {
      if (moved)
        conclude(*heuristics_[i], report.lessons[i]);
      else
        report.lessons[i].end = LessonEnd::NoTime;
    }
    if (moved) certificates_.write();
    reload_tophub();
    report.certificates = certificates_of_file(files_.certificates(), o_.target.kind);
    report.cancelled = clock_.cancelled();
    return report;
  }

 private:
  /// The problems of the caller's, then those that HEDDLE_COLLECT logged.
  std::vector<DrawnProblem> first_of(const Heuristic& h) const {
    std::vector<DrawnProblem> all = o_.first;
    std::ranges::move(read_asked(files_.asked(), h.name), std::back_inserter(all));
    return all;
  }

  /// Moves the constants that the problems of all heuristics together prove, and writes them. A constant decides
  /// problems of several, so the logs of those that are not of this run count, too.
  /// Nothing where the time was over: trees then have no constants to go on from.
  std::optional<std::vector<MovedConstant>> calibrate_all() {
    TuneClock time(o_.measure
                       ? std::max(kCalibrationSeconds, kCalibrationShare * clock_.elapsed_s())
                       : clock_.left_s());
    const CalibrateOptions options{
        .seed = o_.seed,
        .proven_elsewhere = proven_elsewhere(o_.target, files_.constants()),
        .expired = [&] { return clock_.cancelled() || time.expired(); }};
    std::vector<CalibrationRace> all;
    for (const Heuristic* h : all_heuristics()) {
      if (h->target_kind != o_.target.kind || !h->draw) continue;
      std::vector<CalibrationRace>& own = races_[h];
      own = own_races(*h, options.expired);
      all.insert(all.end(), own.begin(), own.end());
    }
    Calibration found = calibrate(all, o_.target.kind, options);
    // Where the time was over, those that were proven until then count, unless more are known from before.
    if (!found.finished && (clock_.cancelled() || !keeps_more(found.moved))) return std::nullopt;
    constants_ = found.constants;
    write_moved(files_.constants(), o_.target.kind, found.moved, o_.date);
    return std::move(found.moved);
  }

  bool keeps_more(const std::vector<MovedConstant>& moved) const {
    return !moved.empty() && moved.size() >= read_moved(files_.constants(), o_.target.kind).size();
  }

  /// The races of the logs of this target: other logs are of other numbers of threads.
  std::vector<CalibrationRace> own_races(const Heuristic& h,
                                         const std::function<bool()>& expired) const {
    // The least times of problems are those of as many threads as their kernels have.
    const ScopedThreads threads(o_.target.is_cuda() ? num_threads() : std::max(1, o_.target.cores));
    std::map<std::string, CalibrationRace> by_id;
    for (const std::string& log : files_.logs_of_threads(h)) {
      const HeuristicData data = read_heuristic_log(log);
      for (CalibrationRace& r : races_of(data, {h, o_.target, data.seed, first_of(h), expired}))
        by_id.insert_or_assign(r.id, std::move(r));
    }
    std::vector<CalibrationRace> races;
    for (auto& [id, race] : by_id) races.push_back(std::move(race));
    return races;
  }

  void collect_all(std::vector<Lesson>& lessons) {
    if (!o_.measure) return;
    int slices = kSlicesEach * static_cast<int>(heuristics_.size());
    for (int round = 0; round < kSlicesEach; ++round) {
      for (std::size_t i = 0; i < heuristics_.size(); ++i, --slices) {
        if (clock_.expired()) return;
        collect_slice(*heuristics_[i], clock_.left_s() / slices, lessons[i]);
      }
    }
  }

  void collect_slice(const Heuristic& h, double seconds, Lesson& lesson) {
    TuneClock slice(seconds, &clock_);
    CollectOptions options{.log = files_.log_of(h, o_.seed), .target = o_.target, .seed = o_.seed};
    options.first = first_of(h);
    options.measurer = o_.measurer != nullptr ? o_.measurer : own_measurer_.get();
    options.clock = &slice;
    if (o_.progress) {
      options.progress = [&](const CollectProgress& p) {
        o_.progress({h.name, p, clock_.left_s()});
      };
    }
    CollectReport report = collect(h, options);
    lesson.collected += report.collected;
    lesson.repeated += report.repeated;
    lesson.waited_seconds += report.waited_seconds;
    std::ranges::move(report.problems, std::back_inserter(lesson.failures));
  }

  /// All that is known of the chip, that of this target first. Trees learn what is left by the rule as it is now: that is
  /// known of this target, and of others while no constant moved.
  std::vector<HeuristicData> parts_of(const Heuristic& h) {
    std::vector<HeuristicData> parts;
    const std::vector<std::string> own = files_.logs_of_threads(h);
    for (const std::string& log : own)
      parts.push_back(with_rule_of(read_heuristic_log(log), races_[&h], constants_));
    if (!(constants_ == default_constants())) return parts;
    for (const std::string& log : files_.logs_of(h)) {
      if (std::ranges::find(own, log) == own.end()) parts.push_back(read_heuristic_log(log));
    }
    if (!o_.known) return parts;
    for (HeuristicData& part : o_.known(h)) {
      if (part.machine.empty() || part.machine == o_.target.chip())
        parts.push_back(std::move(part));
    }
    return parts;
  }

  /// Trains on all that is known, and installs the tree where it is proven to gain.
  void conclude(const Heuristic& h, Lesson& lesson) {
    const std::vector<HeuristicData> parts = parts_of(h);
    lesson.file = files_.tree_of(h);
    if (parts.empty()) return;
    const HeuristicData all = merge(parts);
    const TrainOptions options{.seed = o_.seed, .date = o_.date};
    lesson.problems = static_cast<int>(all.problems.size());
    lesson.noisy = static_cast<int>(std::ranges::count_if(
        all.problems, [&](const HeuristicProblem& p) { return p.noise > options.most_noise; }));
    // Folds of problems that all count are of one size, and so is what they leave to train on.
    const HeuristicData data = subset(all, usable_problems(all, options));
    // Each of the five folds of the evaluation leaves four fifths to train on.
    if (std::ssize(data.problems) * 4 / 5 < 2 * options.folds) return lesson.file.clear();
    const TreeEvaluation worth = cross_evaluate(data, options);
    lesson.rule_over_best = worth.rule_over_best.mean;
    lesson.tree_over_best = worth.tree_over_best.mean;
    lesson.tree_over_rule = worth.tree_over_rule.mean;
    lesson.unsure = worth.unsure_share();
    lesson.end = is_proven(worth) ? LessonEnd::Taken : LessonEnd::NotProven;
    certificates_.add(data, worth, lesson.end == LessonEnd::Taken, races_[&h]);
    if (lesson.end == LessonEnd::NotProven) return remove_tree(lesson);
    TrainedTree tree = train_tree(data, options);
    tree.training["held_out"] = Json::object({{"rule_over_best", lesson.rule_over_best},
                                              {"tree_over_best", lesson.tree_over_best},
                                              {"tree_over_rule", lesson.tree_over_rule},
                                              {"unsure", lesson.unsure}});
    write_tree(lesson.file, tree);
  }

  static void remove_tree(Lesson& lesson) {
    std::error_code error;
    std::filesystem::remove(lesson.file, error);
    lesson.file.clear();
  }

  const LearnOptions& o_;
  const LearnedFiles files_;
  TuneClock own_clock_;
  TuneClock& clock_;
  const std::vector<const Heuristic*> heuristics_;
  std::map<const Heuristic*, std::vector<CalibrationRace>> races_;
  RuleConstants constants_;  ///< that calibration found
  LearnedCertificates certificates_;
  std::unique_ptr<Measurer> own_measurer_;
};

}  // namespace

LearnReport learn(const LearnOptions& options) { return Learner(options).run(); }

LearnReport learned(const Target& target, const std::string& folder) {
  const LearnedFiles files(target, folder);
  LearnReport report;
  report.folder = files.folder();
  report.constants = read_moved(files.constants(), target.kind);
  report.certificates = certificates_of_file(files.certificates(), target.kind);
  for (const Heuristic* h : all_heuristics()) {
    std::error_code error;
    const std::string file = files.tree_of(*h);
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const TrainedTree tree = read_tree(file);
    Lesson lesson{.heuristic = h->name, .problems = static_cast<int>(tree.problems)};
    lesson.end = LessonEnd::Taken;
    lesson.file = file;
    if (const Json* held_out = tree.training.find("held_out")) {
      lesson.rule_over_best = held_out->get_double("rule_over_best", 0);
      lesson.tree_over_best = held_out->get_double("tree_over_best", 0);
      lesson.tree_over_rule = held_out->get_double("tree_over_rule", 0);
      lesson.unsure = held_out->get_double("unsure", 0);
    }
    report.lessons.push_back(std::move(lesson));
  }
  return report;
}

std::vector<std::string> forget_learned(const Target& target, const std::string& folder) {
  const LearnedFiles files(target, folder);
  std::vector<std::string> removed, all{files.constants(), files.certificates(), files.asked()};
  for (const Heuristic* h : all_heuristics()) {
    std::ranges::move(files.logs_of(*h), std::back_inserter(all));
    all.push_back(files.tree_of(*h));
  }
  for (const std::string& file : all) {
    std::error_code error;
    if (std::filesystem::remove(file, error)) removed.push_back(file);
    if (error)
      throw_runtime_error("'" + file + "' cannot be removed: " + error.message(), {},
                          "remove it by hand, or run as its owner");
  }
  reload_tophub();
  return removed;
}

}  // namespace heddle
