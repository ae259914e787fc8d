#include "heddle/search/tune_family.h"

#include <algorithm>

#include "heddle/support/error.h"

namespace heddle {

FamilyResult tune_family(const std::vector<Dim>& dims, const std::vector<Tensor>& args,
                         const FamilyOptions& family, const TuneOptions& tuning) {
  if (!tuning.choices.empty())
    throw_user_error("choices of the caller's cannot be tuned for a family", {},
                     "tune them at one size: at_sizes (dag/instance.h)");
  FamilyOptions options = family;
  if (tuning.target) options.target = tuning.target;
  if (tuning.scheduler) options.scheduler = *tuning.scheduler;
  const auto points = static_cast<double>(family_points(dims, family).size());
  const double search = std::max(tuning.budget.count() - family.race_seconds, 0.0);
  options.choose = [&](const Instance& at, const FamilyPoint&) {
    TuneOptions here = tuning;
    here.budget = std::chrono::duration<double>(search / points);
    here.target = options.target;
    here.scheduler = options.scheduler;
    here.scheduler->use_alternatives = false;
    return tune(at.outputs, here).schedule;
  };
  return choose_family(dims, args, options);
}

}  // namespace heddle
