#include <map>
#include <set>

#include "heddle/schedule/template.h"

namespace heddle {
namespace {

/// Which knobs cut the loops that threads share, from the steps of a template.
class TaskKnobs {
 public:
  void see(const Step& step) {
    switch (step.kind) {
      case StepKind::Split: cuts_[step.results[0]] = {step.params[0].knob, step.results[1]}; return;
      case StepKind::Rfactor: cuts_[step.results[1]] = {step.params[0].knob, -1}; return;
      case StepKind::Fuse: fused_[step.results[0]] = step.axes; return;
      case StepKind::Vectorize:
      case StepKind::Unroll: of_registers_.insert(step.axes[0]); return;
      case StepKind::Parallel: shared_.push_back(step.axes[0]); return;
      default: return;
    }
  }

  std::set<int> knobs() const {
    std::set<int> found;
    std::vector<int> open = shared_;
    while (!open.empty()) {
      const int axis = open.back();
      open.pop_back();
      if (const auto parts = fused_.find(axis); parts != fused_.end())
        open.insert(open.end(), parts->second.begin(), parts->second.end());
      const auto cut = cuts_.find(axis);
      if (cut != cuts_.end() && cut->second.knob >= 0 && !of_registers_.contains(cut->second.inner))
        found.insert(cut->second.knob);
    }
    return found;
  }

 private:
  struct Cut {
    int knob = -1, inner = -1;  ///< axis
  };
  std::map<int, Cut> cuts_;  ///< of the outer axis
  std::map<int, std::vector<int>> fused_;
  std::set<int> of_registers_;
  std::vector<int> shared_;
};

}  // namespace

std::vector<size_t> Template::task_knobs() const {
  std::vector<size_t> all;
  for (const Branch& b : branches_) {
    TaskKnobs seen;
    for (const auto& g : b.recorded->steps) seen.see(g.step);
    for (const int k : seen.knobs()) all.push_back(b.first_knob + static_cast<size_t>(k));
  }
  return all;
}

}  // namespace heddle
