#include "driver/constant_schedule.h"
#include "heddle/family/schedule.h"

namespace heddle {

Schedule create_schedule(const std::vector<Tensor>& outputs, const Target& target,
                         const AutoSchedulerOptions& options) {
  check_options(options);
  if (const std::vector<SizeValue> at = usual_sizes(outputs); !at.empty())
    return family_schedule(outputs, at, target, options);
  return driver::constant_schedule(outputs, target, options);
}

}  // namespace heddle
