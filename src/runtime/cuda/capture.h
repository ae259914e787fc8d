// The stream that the work of a thread goes to, and the resources of a graph under construction.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {

/// The resources that a captured graph must keep alive.
struct Captured {
  std::vector<NDArray> arrays;
  /// Workspaces by executable. Graphs may run at the same time, so each has its own.
  std::map<const void*, std::vector<NDArray>> workspaces;
};

struct CaptureState {
  int device = 0;
  api::StreamHandle stream = nullptr;
  Captured captured;
};

/// The capture that this thread's work on the device goes to; null when there is none.
CaptureState* capture_of(int device);
api::StreamHandle current_stream(int device);
/// Throws while work of the device is captured. `what`, such as "a copy to the CPU", needs its
/// result at once.
void refuse_in_capture(int device, const char* what);
/// Called before work on these arrays is put into the current stream. A capture keeps them.
void keep_in_capture(int device, std::span<const NDArray> arrays);

}  // namespace heddle::cuda
