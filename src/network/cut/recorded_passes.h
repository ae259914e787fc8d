// The choices about the graph of a network that the searched records hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/network/passes.h"
#include "heddle/schedule/template.h"
#include "heddle/target/target.h"

namespace heddle::network {

/// The choices, and the record that they are from.
struct RecordedPasses {
  PassOptions options;
  std::string source;  ///< describe(record)
};

/// The best record for the declaration and the target that holds choices which can be read, for this
/// limit of memory (PassOptions::memory); others are logged.
std::optional<RecordedPasses> recorded_passes(const std::vector<Tensor>& declared,
                                              const Target& target,
                                              const AutoSchedulerOptions& options, int64_t memory);

}  // namespace heddle::network
