// The kernels of a model over ranges of sizes, as `heddle explain` shows and `heddle tune` finds
// them.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "heddle/network/size_kernels.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// Those that `heddle explain` shows: of a race with --race, else those of records. None for a
/// model without ranges. A User error where the options ask for what is not there.
std::vector<TaskKernels> model_kernels(const Request& options, const Problem& problem,
                                       const Network& network);

/// Empty where there are none.
std::string kernels_text(const std::vector<TaskKernels>& kernels);

/// As `heddle report --family` reads it.
Json kernels_json(const std::vector<TaskKernels>& kernels, const Problem& problem,
                  const Target& target);

}  // namespace heddle::cli
