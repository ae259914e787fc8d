// How many blocks a grid has at most.
#pragma once

#include <array>
#include <cstdint>

namespace heddle {

/// The most blocks of a grid along x, y and z, on all CUDA devices (CUDA C++ Programming Guide, table of technical
/// specifications).
inline constexpr std::array<std::int64_t, 3> kMostBlocks{(std::int64_t{1} << 31) - 1, 65535, 65535};

/// Whether a grid of so many blocks along x, y and z can be launched.
constexpr bool is_launchable(const std::array<std::int64_t, 3>& grid) {
  return grid[0] <= kMostBlocks[0] && grid[1] <= kMostBlocks[1] && grid[2] <= kMostBlocks[2];
}

}  // namespace heddle
