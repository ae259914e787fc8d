// Where the weights of a network are when a call reads them, found out on this machine.
#pragma once

#include <cstdint>
#include <optional>

namespace heddle::measuring {

/// The share of the weights that comes from the main memory in each call of a network whose weights
/// take `network_bytes`; the rest comes from the last-level cache. Nullopt where it cannot be told:
/// the two are equally fast, or too little memory is free. The size that a processor reports for
/// its last cache says little in a virtual machine, whose neighbours use the same cache, so memory
/// of that size is read in a cycle and single reads are timed. It takes some tenths of a second for
/// the first call with a size, on one thread; the answer is kept.
std::optional<double> weights_from_memory(int64_t network_bytes);

}  // namespace heddle::measuring
