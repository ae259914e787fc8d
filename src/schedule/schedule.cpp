#include "heddle/schedule/schedule.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "heddle/dag/alternatives.h"
#include "heddle/support/error.h"
#include "schedule/steps/schedule_state.h"

namespace heddle {

Schedule::Schedule(const std::vector<Tensor>& outputs, const Target& target,
                   AutoSchedulerOptions options)
    : Schedule(ComputeDag(outputs), target, std::move(options)) {}
Schedule::Schedule(ComputeDag dag, const Target& target, AutoSchedulerOptions options)
    : state_(std::make_unique<ScheduleState>(std::move(dag))),
      target_(apply_options(target, options)),
      options_(std::move(options)) {
  init_axes(state_->dag);
}
Schedule::~Schedule() = default;
Schedule::Schedule(const Schedule& o)
    : StepRecorder(o),
      provenance(o.provenance),
      state_(std::make_unique<ScheduleState>(*o.state_)),
      steps_(o.steps_),
      target_(o.target_),
      options_(o.options_) {}
Schedule& Schedule::operator=(const Schedule& o) {
  Schedule copy(o);
  return *this = std::move(copy);
}
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule&&) noexcept = default;

Schedule Schedule::for_target(const Target& target, AutoSchedulerOptions options) const {
  Schedule s(*this);
  s.target_ = apply_options(target, options);
  s.options_ = std::move(options);
  return s;
}

const ComputeDag& Schedule::dag() const { return state_->dag; }
const std::vector<Step>& Schedule::steps() const { return steps_; }

int Schedule::stage_of_axis(int axis) const {
  bool known =
      axis >= 0 && axis < static_cast<int>(state_->axes.size()) && state_->axes[axis].defined;
  return known ? state_->axes[axis].stage : -1;
}

void Schedule::record(Step step) { apply(step); }

void Schedule::apply(const Step& step) {
  apply_step(*state_, step);
  steps_.push_back(step);
  if (step.kind == StepKind::Inline) return;  // it makes no axis and no stage
  // The recorder is brought up to date with the replayed steps, so that recording can continue.
  for (int r : step.results) next_axis_ = std::max(next_axis_, r + 1);
  for (size_t i = stage_axes_.size(); i < state_->stages.size(); ++i) {
    stage_axes_.push_back({state_->stages[i].name, {}, {}});
  }
  for (size_t i = 0; i < state_->stages.size(); ++i) {
    const StageState& now = state_->stages[i];
    if (stage_axes_[i].spatial != now.spatial) stage_axes_[i].spatial = now.spatial;
    if (stage_axes_[i].reduce != now.reduce) stage_axes_[i].reduce = now.reduce;
  }
}

Json Schedule::to_json() const {
  Json steps = Json::array();
  for (const Step& s : steps_) {
    Json axes = Json::array(), params = Json::array(), results = Json::array();
    for (int a : s.axes) axes.push_back(Json(static_cast<int64_t>(a)));
    for (const Param& p : s.params) params.push_back(Json(p.value));
    for (int r : s.results) results.push_back(Json(static_cast<int64_t>(r)));
    Json one = Json::array();
    one.push_back(Json(std::string(to_string(s.kind))));
    one.push_back(Json(static_cast<int64_t>(s.stage)));
    one.push_back(std::move(axes));
    one.push_back(std::move(params));
    one.push_back(std::move(results));
    if (!s.instruction.empty()) one.push_back(Json(s.instruction));
    steps.push_back(std::move(one));
  }
  Json out = Json::object();
  out["v"] = Json(int64_t{1});
  if (!dag().alternative().empty()) out["alternative"] = Json(dag().alternative());
  out["steps"] = std::move(steps);
  out["target"] = Json(to_string(target_));
  if (Json options = heddle::to_json(options_); !options.empty())
    out["options"] = std::move(options);
  out["provenance"] = Json(provenance);
  return out;
}

Schedule Schedule::from_json(const Json& json, const ComputeDag& dag, const Target& otherwise) {
  auto bad = [](size_t i, const std::string& why) {
    throw_user_error("step " + std::to_string(i) + " of the schedule " + why, {},
                     "a step is [kind, stage, [axes], [params], [results]]");
  };
  if (!json.is_object() || !json.contains("steps") || !json.contains("v") ||
      json.at("v").as_int() != 1) {
    throw_user_error("this is no schedule of version 1", {},
                     "expected {\"v\": 1, \"steps\": [...]}");
  }
  const std::string alternative = json.get_string("alternative", "");
  const bool rewrite = !alternative.empty() && alternative != dag.alternative();
  const Json *target = json.find("target"), *options = json.find("options");
  Schedule s(rewrite ? apply_alternative(dag, alternative) : dag,
             target ? Target::parse(target->as_string()) : otherwise,
             options ? options_from_json(*options) : AutoSchedulerOptions());
  const Json& steps = json.at("steps");
  for (size_t i = 0; i < steps.size(); ++i) {
    const Json& j = steps.at(i);
    Step step;
    if (!j.is_array() || j.size() < 5 || j.size() > 6) bad(i, "does not have five parts");
    const std::optional<StepKind> kind = parse_step_kind(j.at(0).as_string());
    if (!kind) bad(i, "has the unknown kind '" + j.at(0).as_string() + "'");
    step.kind = *kind;
    if (j.size() == 6) step.instruction = j.at(5).as_string();
    if (j.size() == 6 && step.kind != StepKind::Tensorize) bad(i, "does not have five parts");
    auto id = [&](int64_t v) {
      if (!std::in_range<int>(v)) bad(i, "has the id " + std::to_string(v));
      return static_cast<int>(v);
    };
    step.stage = id(j.at(1).as_int());
    auto numbers = [&](const Json& list, auto add) {
      for (size_t n = 0; n < list.size(); ++n) add(list.at(n).as_int());
    };
    numbers(j.at(2), [&](int64_t v) { step.axes.push_back(id(v)); });
    numbers(j.at(3), [&](int64_t v) { step.params.push_back(Param(v)); });
    numbers(j.at(4), [&](int64_t v) { step.results.push_back(id(v)); });
    upgrade_step(j.at(0).as_string(), &step);
    try {
      s.apply(step);
    } catch (const Error& e) {
      throw Error(e.kind, "step " + std::to_string(i) + " of the schedule: " + e.message, e.where,
                  e.help);
    }
  }
  if (json.contains("provenance")) s.provenance = json.at("provenance").as_string();
  return s;
}

std::string Schedule::to_text() const {
  std::string out = "# " + provenance + "\n";
  for (const Step& s : steps_) out += step_to_text(*state_, s) + "\n";
  return out;
}

std::ostream& operator<<(std::ostream& os, const Schedule& s) { return os << s.to_text(); }

}  // namespace heddle
