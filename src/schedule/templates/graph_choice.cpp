#include "schedule/templates/graph_choice.h"

#include <algorithm>
#include <utility>

#include "heddle/dag/factors.h"
#include "heddle/schedule/options.h"
#include "heddle/target/rule_constants.h"
#include "schedule/templates/graph_features.h"

namespace heddle {
namespace {

constexpr std::string_view kDirect = "direct";
constexpr std::string_view kDirectForms[] = {kDirect, "direct:whole", "direct:split_k"};

/// The stage that a name without '+' ends in; -1 for other names.
int stage_of(const std::string& name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos || name.find('+') != std::string::npos) return -1;
  return std::stoi(name.substr(at + 1));
}

/// The stage with the most work among those that can be rewritten; -1 where there is none.
int heaviest_site(const ComputeDag& dag, const std::vector<Alternative>& all) {
  int site = -1;
  for (const Alternative& a : all) {
    const int s = a.legal() ? stage_of(a.name) : -1;
    if (s >= 0 && (site < 0 || dag.info(s).flops > dag.info(site).flops)) site = s;
  }
  return site;
}

bool is_only_contraction(const ComputeDag& dag, int stage) {
  for (int s = 0; s < dag.size(); ++s) {
    if ((dag.info(s).stage_class == StageClass::ComplexReduction) != (s == stage)) return false;
  }
  return true;
}

// Answers with a form of the reduction where the rule has a knob for it.
class WithReduction : public ChoiceSource {
 public:
  WithReduction(std::shared_ptr<const ChoiceSource> base, GraphChoice choice)
      : base_(std::move(base)), choice_(std::move(choice)) {}

  std::string version() const override {
    return (base_ ? base_->version() : "") + "; reduction " + choice_.reduction + " of " +
           choice_.source;
  }
  std::shared_ptr<const RuleConstants> constants(const Target& target) const override {
    return base_ ? base_->constants(target) : nullptr;
  }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    ChoiceAnswer answer = base_ ? base_->choose(question) : ChoiceAnswer{};
    const std::optional<std::int64_t> form = question.rule.value_of("reduction", choice_.reduction);
    if (!form) return answer;
    Choice with(choice_.source);
    with.set("reduction", *form, "measured");
    if (answer.choice) {
      for (const std::string& knob : answer.choice->knobs()) {
        // The sizes of parts were measured with another value of "reduction", so they are not
        // taken over.
        if (knob != "reduction" && knob != "k_block" && knob != "k_part")
          with.set(knob, answer.choice->value(knob), answer.choice->reason(knob));
      }
    }
    answer.choice = std::move(with);
    return answer;
  }

 private:
  std::shared_ptr<const ChoiceSource> base_;
  GraphChoice choice_;
};

}  // namespace

std::span<const std::string_view> direct_forms() { return kDirectForms; }

std::string_view graph_heuristic(const Target& target) {
  return target.is_cuda() ? "cuda_alternative" : "alternative";
}

GraphQuestion graph_question(const ComputeDag& dag, const Target& target,
                             const std::vector<Alternative>& all, const std::string& by_rule) {
  GraphQuestion q;
  q.stage = heaviest_site(dag, all);
  if (q.stage < 0) return q;
  q.features = graph_features(dag, target, q.stage);
  q.rule.set(kDirect, by_rule.empty());
  if (is_only_contraction(dag, q.stage)) {
    for (const std::string_view form : direct_forms()) {
      if (form != kDirect) q.rule.set(form, 0);
    }
  }
  for (const Alternative& a : all) {
    if (a.legal() && stage_of(a.name) == q.stage)
      q.rule.set(a.name.substr(0, a.name.rfind('@')), a.name == by_rule);
  }
  return q;
}

namespace {

bool has_rounded_factors(const ComputeDag& dag) {
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    const Reduce* sum = op.is_reduction() ? op.bodies()[0].as<Reduce>() : nullptr;
    if (sum && rounds_factors(sum->sources[0])) return true;
  }
  return false;
}

// Whether the products of an alternative multiply numbers of tf32, and those of `dag` do not.
bool splits_f32(const ComputeDag& dag, const Alternative& a) {
  return a.legal() && !has_rounded_factors(dag) &&
         has_rounded_factors(apply_alternative(dag, a.name));
}

}  // namespace

GraphChoice choose_graph(const ComputeDag& dag, const Target& target,
                         const AutoSchedulerOptions& options, const ChoiceSource* source) {
  AlternativePolicy policy = alternative_policy(options);
  if (source != nullptr) policy.constants = source->constants(target);
  std::vector<Alternative> all = alternatives_of(dag, target, policy);
  // What computes f32 by parts in tf32 takes longer than tf32, which the options allow.
  if (options.allow_tf32)
    std::erase_if(all, [&](const Alternative& a) { return a.speedup > 1 && splits_f32(dag, a); });
  const Alternative* best = most_promising(all);
  GraphChoice out{.alternative = best ? best->name : ""};
  // What was learned is about graphs with the same results.
  if (source == nullptr || (best && best->numerics == Numerics::Approximate)) return out;
  const GraphQuestion q = graph_question(dag, target, all, out.alternative);
  if (q.stage < 0) return out;
  ChoiceAnswer answer = source->choose({graph_heuristic(target), q.features, target, q.rule, &dag});
  out.why = std::move(answer.why);
  if (!answer.choice) return out;
  for (const std::string& form : answer.choice->knobs()) {
    if (answer.choice->value(form) != 1 || !q.rule.has(form)) continue;
    out.source = answer.choice->source();
    const bool direct = form.starts_with(kDirect);
    out.alternative = direct ? "" : form + "@" + std::to_string(q.stage);
    const std::size_t colon = form.find(':');
    out.reduction = direct && colon != std::string::npos ? form.substr(colon + 1) : "";
  }
  return out;
}

GraphChoice choose_graph(const ComputeDag& dag, const Target& target,
                         const AutoSchedulerOptions& options) {
  const auto source = options.use_heuristics ? installed_choice_source() : nullptr;
  return choose_graph(dag, target, options, source.get());
}

std::shared_ptr<const ChoiceSource> with_reduction(std::shared_ptr<const ChoiceSource> source,
                                                   const GraphChoice& choice) {
  if (choice.reduction.empty()) return source;
  return std::make_shared<WithReduction>(std::move(source), choice);
}

}  // namespace heddle
