#include "network/cut/sizes/size_choices.h"

#include "network/cut/shared_weights.h"

namespace heddle::network {
namespace {

// Six points, four times apart, miss where a rule changes the tile of a product: BERT of 300 words
// then ran with the tiles for 512, and half of the multiprocessors.
constexpr family::PointSpacing kClose{1.5, 20};

}  // namespace

family::SizeChoices size_choices(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                                 const Target& target, const AutoSchedulerOptions& options) {
  family::SizeChoices made = family::size_choices(outputs, sizes, target, options, kClose);
  for (size_t i = made.choices.size(); i-- > 1;) {
    if (streams_weights_once(made.choices[i - 1].schedule, made.choices[i].schedule))
      made.drop(i - 1);
  }
  return made;
}

}  // namespace heddle::network
