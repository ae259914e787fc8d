#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "driver/program_args.h"
#include "driver/roof.h"
#include "heddle/heuristics/certificate.h"
#include "heddle/heuristics/heuristic.h"
#include "heddle/records/tophub.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/schedule/choice.h"
#include "heddle/schedule/meta_template.h"
#include "heuristics/certify/certificates_file.h"
#include "heuristics/collect/planted_choice.h"
#include "schedule/templates/graph_choice.h"

namespace heddle {

using namespace learning;
namespace {

struct Question {
  std::string heuristic;
  NamedFeatures features;
};

/// Answers as another source does, and records each different question.
class RecordingSource : public ChoiceSource {
 public:
  explicit RecordingSource(std::shared_ptr<const ChoiceSource> inner) : inner_(std::move(inner)) {}
  std::string version() const override {
    return "recording " + (inner_ ? inner_->version() : std::string());
  }
  std::shared_ptr<const RuleConstants> constants(const Target& target) const override {
    return inner_ ? inner_->constants(target) : nullptr;
  }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    const bool known = std::ranges::any_of(asked_, [&](const Question& q) {
      return q.heuristic == question.heuristic && same_values(q.features, question.features);
    });
    if (!known) asked_.push_back({std::string(question.heuristic), question.features});
    return inner_ ? inner_->choose(question) : ChoiceAnswer();
  }
  const std::vector<Question>& asked() const { return asked_; }

 private:
  std::shared_ptr<const ChoiceSource> inner_;
  mutable std::vector<Question> asked_;
};

std::vector<Question> questions_of(const ComputeDag& dag, const Target& target,
                                   const AutoSchedulerOptions& options) {
  const auto source = std::make_shared<RecordingSource>(
      options.use_heuristics ? installed_choice_source() : nullptr);
  (void)make_static_template_with(dag, target, options, source);
  return source->asked();
}

/// The least time over the graphs that compute the same. The machine is asked with the threads of the target.
double least_of_graphs(const ComputeDag& dag, const Target& target,
                       const AutoSchedulerOptions& options) {
  const Template all = make_template_of_alternatives(dag, target, options);
  double least = std::numeric_limits<double>::infinity();
  for (int b = 0; b < all.num_branches(); ++b) {
    KernelWork work = driver::work_of(all.branch(b).dag(), target);
    if (options.allow_tf32) work.flops = 0;  // how much of it matrix units do is not known
    least = std::min(least, driver::least_seconds(work));
  }
  return std::isfinite(least) ? least : 0;
}

/// What the tree of its heuristic says about a question. Adds the mean of log(time / least time) to `slower`.
CertifiedChoice certified(const Question& question, const Certificates& certificates,
                          std::vector<double>& slower) {
  CertifiedChoice out{.heuristic = question.heuristic};
  const ShareTree* tree = certificates.find(question.heuristic);
  if (tree == nullptr) {
    out.why_not = "none of its problems were measured";
    return out;
  }
  const std::vector<double> values =
      find_heuristic(question.heuristic)->values_of(question.features);
  const int at = leaf_of(*tree, values, &out.why_not);
  if (at < 0) return out;
  const ShareLeaf& leaf = tree->leaves[static_cast<std::size_t>(at)];
  out.probability = leaf.share;
  out.problems = leaf.problems;
  out.within = leaf.within;
  if (!std::isnan(leaf.slower)) slower.push_back(leaf.slower);
  return out;
}

}  // namespace

Certificate certify(const ComputeDag& dag, const Target& base,
                    const AutoSchedulerOptions& options) {
  const Target target = apply_options(base, options);
  const ScopedThreads threads(target.is_cuda() ? num_threads() : std::max(1, target.cores));
  Certificate out;
  out.least_seconds = least_of_graphs(dag, target, options);
  const std::shared_ptr<const Certificates> found = find_certificates(target);
  if (found == nullptr) {
    out.why_not = "nothing was measured for " + target.chip() + " (heddle learn)";
    return out;
  }
  out.source = found->source;
  std::vector<double> slower;
  double probability = 1;
  bool all_known = true;
  for (const Question& q : questions_of(dag, target, options)) {
    // A choice that nobody measures is a matter of course.
    const Heuristic* h = find_heuristic(q.heuristic);
    if (h == nullptr || !h->draw) continue;
    out.choices.push_back(certified(q, *found, slower));
    all_known = all_known && out.choices.back().probability.has_value();
    probability *= out.choices.back().probability.value_or(1);
  }
  if (out.choices.empty()) {
    out.why_not = "no choice that is learned is made for it";
  } else if (!all_known) {
    out.why_not = "it has choices of which nothing is known";
  } else {
    out.probability = probability;
  }
  if (slower.empty()) return out;
  double mean = 0;
  for (const double s : slower) mean += s / static_cast<double>(slower.size());
  out.expected_seconds =
      driver::least_seconds(driver::work_of(dag, target)) * std::exp(std::max(0.0, mean));
  return out;
}

CertificateCalibration certificate_calibration(const Target& target) {
  return certificates_of_file(tophub_nearest_file(target, kCertificatesEnding).value_or(""),
                              target.kind);
}

}  // namespace heddle
