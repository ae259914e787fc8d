#include "network/sizes/family_candidates.h"

#include <algorithm>
#include <array>
#include <optional>

#include "family/blocks.h"
#include "heddle/driver/build.h"
#include "heddle/family/schedule.h"

namespace heddle::network {
namespace {

using Forms = std::array<family::BlockForm, 3>;

class Candidates {
 public:
  Candidates(const TaskFamily& family, const std::vector<Dim>& dims)
      : family_(family), dims_(dims) {}

  void add(size_t point, Schedule schedule, const char* form) {
    std::string steps = family::identity(schedule);
    if (std::find(steps_.begin(), steps_.end(), steps) != steps_.end()) return;
    steps_.push_back(std::move(steps));
    list_.push_back({family_.chosen_at[point] + form, sizes_at(point), std::move(schedule)});
  }

  std::vector<FamilyVariant> take() { return std::move(list_); }

 private:
  /// In elements. A dimension that the task does not have is at its largest size.
  std::vector<int64_t> sizes_at(size_t point) const {
    std::vector<int64_t> sizes;
    for (const Dim& d : dims_) {
      sizes.push_back(d.hi());
      for (const SizeValue& v : family_.points[point]) {
        if (v.size.same_as(d.variable())) sizes.back() = v.value * d.multiple();
      }
    }
    return sizes;
  }

  const TaskFamily& family_;
  const std::vector<Dim>& dims_;
  std::vector<std::string> steps_;
  std::vector<FamilyVariant> list_;
};

/// The forms of a schedule of one size; the one of a build without a race comes first.
Forms forms_of(const Schedule& one, const std::vector<Tensor>& outputs) {
  Forms forms = family::block_forms(one, outputs);
  if (one.target().cores > 1 && forms.back().schedule) std::swap(forms.front(), forms.back());
  return forms;
}

/// Where no schedule at one size holds for all.
Forms naive_form(const TaskFamily& family, const Target& target, const std::string& why) {
  Forms forms;
  forms[0].schedule = naive_schedule(family.outputs, target);
  forms[0].schedule->provenance += "; another was given, but " + why;
  return forms;
}

}  // namespace

std::vector<FamilyVariant> family_candidates(const TaskFamily& family,
                                             std::span<const Schedule> at_points,
                                             std::span<const TuneTask> tasks,
                                             const std::vector<Dim>& dims) {
  std::vector<Forms> forms;
  for (size_t i = 0; i < at_points.size(); ++i) {
    const SoundSchedule sound = sound_schedule(at_points[i], family, tasks, i);
    forms.push_back(sound.at_point ? forms_of(*sound.at_point, family.outputs)
                                   : naive_form(family, at_points[i].target(), sound.why));
  }
  Candidates all(family, dims);
  for (size_t f = 0; f < Forms().size(); ++f) {
    for (size_t i = 0; i < forms.size(); ++i) {
      family::BlockForm& form = forms[i][f];
      if (form.schedule) all.add(i, *std::move(form.schedule), form.name);
    }
  }
  return all.take();
}

}  // namespace heddle::network
