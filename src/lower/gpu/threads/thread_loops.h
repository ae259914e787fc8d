// The thread loops of a sequential program that can run on threads.
#pragma once

#include <set>

#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {

/// Threads of a warp.
inline constexpr int64_t kWarp = 32;

/// A program whose thread loops can all run on threads.
struct ThreadLoops {
  Stmt body;  ///< loops that cannot run on threads are serial here: every thread runs them
  /// The loops of `body` that reduce over threads (thread_reduction.h), and those of them that a
  /// block runs once.
  std::set<const StmtNode*> reductions, run_once;
};

ThreadLoops with_legal_thread_loops(const Stmt& s, const LaunchShape& shape);

}  // namespace heddle::gpu
