// The launches of a call as data, which a CUDA graph can take over.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "heddle/support/function_ref.h"
#include "runtime/cuda/launcher.h"

namespace heddle::cuda {

/// Launches in their order, with copies of the values of their parameters.
class LaunchRecord {
 public:
  struct Launch {
    const Launcher* launcher = nullptr;
    std::array<unsigned, 3> grid{}, block{};
    std::size_t params = 0;               ///< their number
    std::size_t first_map = 0, maps = 0;  ///< those of them that are tensor maps
    std::size_t begin = 0, end = 0;       ///< of their values, in words
  };

  /// `params` are the addresses of the values: of 8 bytes, but for `maps` tensor maps that begin at
  /// parameter `first_map`.
  void add(const Launcher& launcher, const std::array<unsigned, 3>& grid,
           const std::array<unsigned, 3>& block, std::span<void* const> params,
           std::size_t first_map, std::size_t maps);

  /// The owner of memory that launches read lives as long as the record.
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

  const std::vector<Launch>& launches() const { return launches_; }
  /// The addresses of the values of a launch's parameters. Valid as long as the record is neither
  /// changed nor moved.
  std::vector<void*> params(std::size_t launch);
  /// Whether both are launches of the same kernels with as many threads in a block, in one order.
  bool same_kernels(const LaunchRecord& other) const;
  /// Whether a launch has other blocks or other values than that of `other`, which has the same
  /// kernels.
  bool differs(std::size_t launch, const LaunchRecord& other) const;

 private:
  std::span<const std::uint64_t> values_of(const Launch& launch) const;

  std::vector<Launch> launches_;
  std::vector<std::uint64_t> words_;
  std::vector<std::shared_ptr<const void>> owners_;
};

/// Keeps the kernels that `calls` of this thread launch on the device, instead of launching them.
/// Constants are prepared at once, as in a capture.
LaunchRecord record_launches(FunctionRef<void()> calls, int device);
/// The record that takes this thread's launches on the device; null where there is none.
LaunchRecord* record_of(int device);

}  // namespace heddle::cuda
