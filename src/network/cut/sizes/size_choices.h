// The sizes at which the kernels of a node over dimensions are chosen.
#pragma once

#include "family/size_choices.h"

namespace heddle::network {

/// The choices for the node that computes `outputs`, in a network over `sizes`, without a race:
/// those of a declaration alone, but on a CPU a point whose kernel would read weights that are
/// packed for the others gives way to the next larger one.
family::SizeChoices size_choices(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                                 const Target& target, const AutoSchedulerOptions& options);

}  // namespace heddle::network
