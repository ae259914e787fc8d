// The network that a command names, to be run on this machine.
#pragma once

#include "commands.h"
#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// While it lives, this process has the number of threads of the target; for a GPU all, which compile its kernels.
class NetworkHere {
 public:
  /// Throws a User error for a target that is not here, and for sizes of a network without ranges.
  explicit NetworkHere(const Request& options);
  /// After the passes and with the plan of the options.
  Network network() const;

  const Target target;
  const Problem problem;

 private:
  const Request options_;
  const ScopedThreads threads_;
};

}  // namespace heddle::cli
