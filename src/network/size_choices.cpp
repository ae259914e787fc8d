#include "network/size_choices.h"

#include <algorithm>
#include <string>

#include "driver/family_blocks.h"
#include "heddle/driver/family.h"
#include "network/shared_weights.h"

namespace heddle::network {
namespace {

// Six points, four times apart, miss where a rule changes the tile of a product: BERT of 300 words
// then ran with the tiles for 512, and half of the multiprocessors.
constexpr family::PointSpacing kClose{1.5, 20};
constexpr size_t kMostPoints = 6;

/// Whether that could be done.
bool drop(SizeChoices& made, size_t point) {
  if (!drop_point(made.points, point)) return false;
  made.choices.erase(made.choices.begin() + static_cast<std::ptrdiff_t>(point));
  return true;
}

/// The steps for all sizes; empty where the choice does not hold for them.
std::string steps_of(const family::NearChoice& choice, const std::vector<Tensor>& outputs) {
  try {
    return family::identity(for_all_sizes(choice.schedule, outputs));
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return "";
  }
}

void drop_equal_neighbours(SizeChoices& made, const std::vector<Tensor>& outputs) {
  std::vector<std::string> steps;
  for (const family::NearChoice& choice : made.choices) steps.push_back(steps_of(choice, outputs));
  std::vector<size_t> stands_for(steps.size(), 1);  // how many points each is
  const auto drop_at = [&](size_t i) {
    if (!drop(made, i)) return false;
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

}  // namespace

SizeChoices size_choices(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                         const Target& target, const AutoSchedulerOptions& options) {
  const bool close = target.is_cuda() && sizes_of(outputs).size() == 1;
  SizeChoices made;
  made.points = family::size_points(outputs, sizes, close ? kClose : family::usual_spacing(target));
  for (const std::vector<SizeValue>& point : made.points.points)
    made.choices.push_back(family::choice_for_range(outputs, point, target, options));
  if (close) drop_equal_neighbours(made, outputs);
  for (size_t i = made.choices.size(); i-- > 1;) {
    if (streams_weights_once(made.choices[i - 1].schedule, made.choices[i].schedule))
      drop(made, i - 1);
  }
  return made;
}

}  // namespace heddle::network
