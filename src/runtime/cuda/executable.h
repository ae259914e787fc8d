// A Program that is ready to run. It is loaded on each device at its first call there. Later calls
// are only launches of the driver.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::cuda {

class Executable {
 public:
  /// Checks the consistency of the program: buffer indices, extents. Needs no GPU.
  Executable(std::shared_ptr<const Program> program, std::string name, std::size_t args,
             std::size_t persistent);
  ~Executable();

  /// Puts the launches into the device's current stream. `buffers` are the addresses of the
  /// arguments and the persistent buffers, `sizes` the symbolic sizes of the call. `scratch` has
  /// scratch_bytes(program()); null: it has its own. Thread-safe.
  void run(int device, std::span<void* const> buffers, std::span<const std::int64_t> sizes = {},
           char* scratch = nullptr) const;
  /// Computes the persistent buffers; waits until that is done. Never part of a captured graph.
  void prepare(int device, std::span<void* const> buffers) const;

  /// Loads the code onto the device, which the first call would do.
  void load(int device) const { loaded(device); }

  bool has_prepare() const { return !program_->prepare.empty(); }
  const Program& program() const { return *program_; }

 private:
  struct Loaded;  // on one device
  static constexpr int kMostDevices = 64;

  Loaded& loaded(int device) const;
  void check(const Launch& launch) const;

  std::shared_ptr<const Program> program_;
  std::vector<Workspace> zeroed_;  // those of its workspaces that hold something between calls
  std::string name_;
  std::size_t args_ = 0;         // number of arguments and persistent buffers
  std::size_t most_params_ = 0;  // largest number of parameters of a launch
  mutable std::mutex mutex_;
  mutable std::array<std::atomic<Loaded*>, kMostDevices> loaded_{};
};

}  // namespace heddle::cuda
