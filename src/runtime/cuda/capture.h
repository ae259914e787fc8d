// The stream of the work of a thread, and the resources of a graph under construction.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {

/// The resources that a captured graph must keep alive.
struct Captured {
  std::vector<NDArray> arrays;
  std::vector<std::shared_ptr<const void>> owners;  ///< of other arrays
  /// Workspaces by the list that asks for them. Each graph has its own, because graphs may run at the same time.
  std::map<const void*, std::vector<NDArray>> workspaces;
};

struct CaptureState {
  int device = 0;
  api::StreamHandle stream = nullptr;
  Captured captured;
};

/// The capture that records this thread's work on the device; null when there is none.
CaptureState* capture_of(int device);
api::StreamHandle current_stream(int device);
/// Throws while work on the device is captured. `what`, such as "a copy to the CPU", needs its
/// result at once.
void refuse_in_capture(int device, const char* what);
/// Called before work on these arrays is put into the current stream. A capture keeps them alive.
void keep_in_capture(int device, std::span<const NDArray> arrays);
/// The same for the owner of arrays, which a record of launches (launch_record.h) keeps alive, too.
void keep_for_launches(int device, std::shared_ptr<const void> owner);

}  // namespace heddle::cuda
