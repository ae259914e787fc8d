#include "runtime/cuda/callers_capture.h"

#include "runtime/cuda/capture.h"

namespace heddle::cuda {

bool caller_captures(int device) {
  const api::StreamHandle stream = current_stream(device);
  // The default stream cannot be captured, and the driver answers with an error for it while
  // another one is.
  if (stream == nullptr || capture_of(device) != nullptr) return false;
  DeviceState& d = device_state(device);
  d.enter();
  int status = api::kNotCaptured;
  d.check(d.api->stream_is_capturing(stream, &status), "cuStreamIsCapturing");
  return status != api::kNotCaptured;
}

BesideCaptures::BesideCaptures(DeviceState& device) : device_(&device) {
  device.check(device.api->thread_exchange_capture_mode(&mode_),
               "cuThreadExchangeStreamCaptureMode");
}

BesideCaptures::~BesideCaptures() {
  if (device_->try_enter()) device_->api->thread_exchange_capture_mode(&mode_);
}

}  // namespace heddle::cuda
