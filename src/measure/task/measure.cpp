#include "heddle/measure/measure.h"

#include <algorithm>
#include <cstdio>

#include "support/hashing/hash.h"

namespace heddle {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

uint64_t TuneTask::hash() const {
  return hash_combine(tmpl.dag().structural_hash(), hash_string(to_string(tmpl.target())));
}

TuneTask make_task(std::string name, const std::vector<Tensor>& outputs, const Target& target,
                   std::vector<Tensor> args, const AutoSchedulerOptions& options) {
  ComputeDag dag(outputs);
  if (args.empty()) {
    args = dag.placeholders();
    args.insert(args.end(), outputs.begin(), outputs.end());
  }
  return {.name = std::move(name),
          .args = std::move(args),
          .tmpl = make_template_of_alternatives(dag, target, options)};
}

std::string to_string(const MeasureProtocol& p) {
  std::string out = p.cold.value_or(false) ? "cold" : "warm";
  out += " repeats=" + std::to_string(p.min_repeats) + ".." + std::to_string(p.max_repeats);
  out += " ms=" + number(p.min_seconds * 1e3) + ".." + number(p.max_seconds * 1e3);
  out += " ci=" + number(p.relative_ci);
  out += p.cutoff > 0 ? " cutoff=" + number(p.cutoff) : " no cutoff";
  if (!p.check_output) out += " unchecked";
  return out;
}

double MeasureResult::median() const {
  if (!ok()) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

TuneClock::TuneClock(double budget_seconds, const TuneClock* whole)
    : start_(std::chrono::steady_clock::now()), budget_(budget_seconds), whole_(whole) {}

double TuneClock::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

double TuneClock::left_s() const {
  if (cancelled()) return 0;
  double own = std::max(0.0, budget_ - elapsed_s());
  return whole_ ? std::min(own, whole_->left_s()) : own;
}

}  // namespace heddle
