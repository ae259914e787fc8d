// The static choice at sizes near a point, in a form that is valid for all sizes of a family.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/schedule/schedule.h"

namespace heddle::family {

struct NearChoice {
  std::vector<SizeValue> at;  ///< the sizes of the choice
  Schedule schedule;          ///< schedule of the declaration at these sizes
};

/// "n = 17, m = 8".
std::string sizes_text(const std::vector<SizeValue>& at);

/// The choice of create_schedule at the sizes `at`. Where it uses a matrix unit of a CPU, whose
/// tiles have no tails, the result is the choice at the nearest sizes whose operands are padded to
/// whole tiles, and whose tiles keep their form for all sizes. Otherwise it is the
/// choice for the same CPU without the matrix unit. For a GPU
/// whose schedule with warp groups does not lower for all sizes, it is the choice for the same GPU
/// without them. Alternatives are left out.
NearChoice choice_near(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                       const Target& target, const AutoSchedulerOptions& options);

/// Choices for a point of a range, the one to take without a race first. For a GPU they are made at
/// sizes near `point`. Where rows of all sizes are read by vectors (gpu::align_rows), the sizes are
/// multiples of these vectors, and for short rows there are choices for shorter ones. Other wide
/// accesses need rows whose length is a multiple of the access at every size, and a size that
/// happens to be such a multiple says nothing about others: sizes are then odd.
std::vector<NearChoice> choices_for_range(const std::vector<Tensor>& outputs,
                                          const std::vector<SizeValue>& point, const Target& target,
                                          const AutoSchedulerOptions& options);
/// The first of them. On a CPU it may be of an alternative (dag/alternatives.h) that holds for all
/// sizes of the only dimension; else alternatives are left out.
NearChoice choice_for_range(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& point,
                            const Target& target, const AutoSchedulerOptions& options);

}  // namespace heddle::family
