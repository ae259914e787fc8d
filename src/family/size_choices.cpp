#include "family/size_choices.h"

#include <algorithm>
#include <optional>
#include <string>

#include "family/blocks.h"
#include "heddle/family/schedule.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"

namespace heddle::family {
namespace {

constexpr size_t kMostPoints = 6;

/// The steps for all sizes; empty where the choice does not hold for them.
std::string steps_of(const NearChoice& choice, const std::vector<Tensor>& outputs) {
  try {
    return identity(for_all_sizes(choice.schedule, outputs));
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return "";
  }
}

void drop_equal_neighbours(SizeChoices& made, const std::vector<Tensor>& outputs) {
  std::vector<std::string> steps;
  for (const NearChoice& choice : made.choices) steps.push_back(steps_of(choice, outputs));
  std::vector<size_t> stands_for(steps.size(), 1);  // how many points each is
  const auto drop_at = [&](size_t i) {
    if (!made.drop(i)) return false;
    stands_for[i + 1] += stands_for[i];
    stands_for.erase(stands_for.begin() + static_cast<std::ptrdiff_t>(i));
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  };
  for (size_t i = steps.size(); i-- > 1;) {
    if (steps[i - 1] == steps[i]) drop_at(i - 1);
  }
  while (made.choices.size() > kMostPoints) {
    // The smallest size is a case of its own, such as a product of one row.
    const auto least = std::min_element(stands_for.begin() + 1, stands_for.end() - 1);
    if (!drop_at(static_cast<size_t>(least - stands_for.begin()))) return;
  }
}

/// The choice at each point, or of the next point that has one, or of the one before.
std::vector<NearChoice> choices_at(const std::vector<Tensor>& outputs,
                                   const std::vector<std::vector<SizeValue>>& points,
                                   const Target& target, const AutoSchedulerOptions& options) {
  std::vector<std::optional<NearChoice>> found(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    try {
      found[i] = choice_for_range(outputs, points[i], target, options);
    } catch (const Error& e) {
      // What is chosen at one size may not hold for all.
      const bool any = std::any_of(found.begin(), found.end(), [](const auto& f) { return !!f; });
      if (e.kind != ErrorKind::User || (i + 1 == points.size() && !any)) throw;
    }
  }
  for (size_t i = points.size(); i-- > 1;) {
    if (!found[i - 1]) found[i - 1] = found[i];
  }
  std::vector<NearChoice> choices;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!found[i]) found[i] = found[i - 1];
    choices.push_back(*found[i]);
  }
  return choices;
}

}  // namespace

bool SizeChoices::drop(size_t point) {
  if (!drop_point(points, point)) return false;
  choices.erase(choices.begin() + static_cast<std::ptrdiff_t>(point));
  return true;
}

SizeChoices size_choices(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                         const Target& target, const AutoSchedulerOptions& options,
                         const PointSpacing& close) {
  const bool is_close = target.is_cuda() && sizes_of(outputs).size() == 1;
  SizeChoices made;
  made.points = size_points(outputs, sizes, is_close ? close : usual_spacing(target));
  made.choices = choices_at(outputs, made.points.points, target, options);
  if (is_close) drop_equal_neighbours(made, outputs);
  return made;
}

}  // namespace heddle::family
