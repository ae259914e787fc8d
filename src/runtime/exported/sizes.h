// The sizes of a call of an exported network, and which kernel of a step they name.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/exported/network.h"

namespace heddle {

/// The sizes in the form in which functions take them: divided by their multiples. Throws a Runtime
/// error that names the network and the size where one is out of its range or no such multiple.
std::vector<int64_t> checked_sizes(const char* network, const heddle_size* sizes, int32_t count,
                                   const int64_t* given);

/// The variant that the questions name for these sizes. Without questions it is the first one.
int32_t exported_variant(const heddle_question* questions, int32_t num_variants,
                         const std::vector<int64_t>& values);

}  // namespace heddle
