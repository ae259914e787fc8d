// Which stream a thread's work goes to, and what a graph under construction holds.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {

/// What a captured graph must keep alive.
struct Captured {
  std::vector<NDArray> arrays;
  /// By the executable whose they are: graphs may run at the same time, so each has its own.
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
/// Throws while the device's work is captured: "a copy to the CPU" needs its result now.
void refuse_in_capture(int device, const char* what);
/// Work on these arrays is about to be put into the current stream: a capture keeps them.
void keep_in_capture(int device, std::span<const NDArray> arrays);

}  // namespace heddle::cuda
