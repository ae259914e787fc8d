// Captures that Heddle did not begin: a caller that records its own stream into a graph, as
// torch.cuda.graph does.
#pragma once

#include "runtime/cuda/state.h"

namespace heddle::cuda {

/// Whether the caller captures this thread's current stream of the device. Such a stream can wait
/// neither for the host nor for events from outside of the capture.
bool caller_captures(int device);

/// Lets this thread allocate memory and wait for other streams until the end of the scope, although
/// a caller captures one. Most captures forbid that.
class BesideCaptures {
 public:
  explicit BesideCaptures(DeviceState& device);
  ~BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  DeviceState* device_;
  int mode_ = api::kCaptureRelaxed;  // the thread's own during the scope
};

}  // namespace heddle::cuda
