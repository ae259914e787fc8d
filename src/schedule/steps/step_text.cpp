// Steps as readable text.
#include "schedule/steps/schedule_state.h"

namespace heddle {
namespace {

class StepText {
 public:
  StepText(const ScheduleState& state, const Step& step) : state_(state), step_(step) {}

  std::string text() {
    if (step_.kind == StepKind::ComputeAt || step_.kind == StepKind::StoreAt) add_owner();
    if (step_.kind == StepKind::Pad) {
      add_padding();
    } else {
      for (int a : step_.axes) add(axis(a));
      add_params();
    }
    return stage(step_.stage) + "." + to_string(step_.kind) + "(" + args_ + ")" + results();
  }

 private:
  std::string axis(int id) const {
    return id < static_cast<int>(state_.axes.size()) && state_.axes[id].defined
               ? state_.axes[id].name
               : "#" + std::to_string(id);
  }
  std::string stage(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(state_.stages.size()) &&
                   state_.stages[static_cast<size_t>(id)].defined()
               ? state_.stages[static_cast<size_t>(id)].name
               : "#" + std::to_string(id);
  }
  int64_t param(size_t i) const { return step_.params.at(i).value; }
  void add(const std::string& arg) { args_ += (args_.empty() ? "" : ", ") + arg; }

  // Adds the stage that the loop belongs to.
  void add_owner() {
    const int loop = step_.axes.at(0);
    const bool known = loop < static_cast<int>(state_.axes.size()) && state_.axes[loop].defined;
    add(known ? stage(state_.axes[loop].stage) : "?");
  }

  // The number of which an extent becomes a multiple: the product of three parameters.
  int64_t multiple(size_t first) const {
    int64_t product = 1;
    for (size_t f = 0; f < 3; ++f) product *= step_.params[first + f].value;
    return product;
  }

  void add_padding() {
    for (size_t i = 0; i < step_.axes.size() && 3 * i + 2 < step_.params.size(); ++i)
      add(axis(step_.axes[i]) + " to " + std::to_string(multiple(3 * i)));
  }

  void add_product() {
    const size_t n = 3 * step_.axes.size();
    for (size_t i = 0; i < 3 && n + 3 * i + 2 < step_.params.size(); ++i)
      add(std::string(1, "mnk"[i]) + " to " + std::to_string(multiple(n + 3 * i)));
  }

  void add_layout() {
    for (size_t i = 0; i + 2 < step_.params.size(); i += 3) {
      std::string d = "d" + std::to_string(param(i));
      if (param(i + 1) != 1) d += "/" + std::to_string(param(i + 1));
      if (param(i + 2) != 0) d += "%" + std::to_string(param(i + 2));
      add(d);
    }
  }

  void add_params() {
    switch (step_.kind) {
      case StepKind::AsProduct: return add_product();
      case StepKind::Layout: return add_layout();
      case StepKind::Split:
        add(std::to_string(param(0)));
        if (tail_of(step_) != TailStrategy::Shorten) add(to_string(tail_of(step_)));
        return;
      case StepKind::CacheRead:
        for (const Param& p : step_.params) add(stage(p.value));
        return;
      case StepKind::ScatterRows: add(stage(param(0))); return add(std::to_string(param(1)));
      case StepKind::Prefetch:
        add(stage(param(0)));
        add("d" + std::to_string(param(1)));
        return add(std::to_string(param(2)));
      case StepKind::Rfactor:
        add(std::to_string(param(0)));
        return add(param(1) ? "inner" : "outer");
      case StepKind::Bind: {
        const std::optional<LoopKind> kind = LoopKind::of_number(param(0));
        return add(kind ? to_string(*kind) : "?");
      }
      case StepKind::Tensorize: return add(step_.instruction);
      case StepKind::SetScope:
        return add(param(0) == static_cast<int>(Scope::Shared) ? "shared" : "local");
      case StepKind::Expect: return add(to_string(static_cast<Instruction>(param(0))));
      case StepKind::Widen:
        return add(
            to_string(DataType{static_cast<TypeCode>(param(0)), static_cast<uint8_t>(param(1))}));
      default:
        for (const Param& p : step_.params) add(std::to_string(p.value));
    }
  }

  std::string results() const {
    switch (step_.kind) {
      case StepKind::CacheWrite:
      case StepKind::CacheRead:
      case StepKind::Rfactor:
      case StepKind::Pad:
      case StepKind::AsProduct:
      case StepKind::OnlineSoftmax: return " -> " + stage(step_.results.at(0));
      default: break;
    }
    std::string out;
    for (int r : step_.results) out += (out.empty() ? " -> " : ", ") + axis(r);
    return out;
  }

  const ScheduleState& state_;
  const Step& step_;
  std::string args_;
};

}  // namespace

std::string step_to_text(const ScheduleState& state, const Step& step) {
  return StepText(state, step).text();
}

}  // namespace heddle
