// A turn on a GPU that several processes measure on: an exclusive lock of a file.
#pragma once

#include <functional>
#include <string>

namespace heddle::measuring {

/// Waits until no other process has a turn of the same file, and has one until it is destroyed. A
/// process that dies loses its turn.
class GpuTurn {
 public:
  /// Makes the file where there is none. `waiting` is called about every second while others have
  /// their turns. With an empty path there are no turns. Throws a User error for a file that cannot
  /// be opened for writing.
  GpuTurn(const std::string& path, const std::function<void()>& waiting);
  ~GpuTurn();
  GpuTurn(const GpuTurn&) = delete;
  GpuTurn& operator=(const GpuTurn&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace heddle::measuring
