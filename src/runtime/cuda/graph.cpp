#include <utility>

#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"
#include "runtime/cuda/callers_capture.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/driver_graph.h"
#include "runtime/cuda/launch_record.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {
namespace {

thread_local CaptureState* the_capture = nullptr;

}  // namespace

CaptureState* capture_of(int device) {
  return the_capture != nullptr && the_capture->device == device ? the_capture : nullptr;
}

void refuse_in_capture(int device, const char* what) {
  if (capture_of(device) == nullptr && !caller_captures(device)) return;
  throw_user_error(std::string(what) + " cannot be captured into a CUDA graph", {},
                   "move it before or after the capture");
}

void keep_in_capture(int device, std::span<const NDArray> arrays) {
  if (CaptureState* capture = capture_of(device)) {
    std::vector<NDArray>& kept = capture->captured.arrays;
    kept.insert(kept.end(), arrays.begin(), arrays.end());
  }
}

void keep_for_launches(int device, std::shared_ptr<const void> owner) {
  if (CaptureState* capture = capture_of(device)) {
    capture->captured.owners.push_back(std::move(owner));
  } else if (LaunchRecord* record = record_of(device)) {
    record->keep(std::move(owner));
  }
}

struct Graph::Impl {
  Impl(DeviceState& device, FunctionRef<void(const Stream&)> record) : graph(device, record) {}

  DriverGraph graph;
  Captured captured;
};

void Graph::launch() const { launch(Stream::current(device())); }

void Graph::launch(const Stream& stream) const {
  (void)device();
  impl_->graph.launch(stream);
}

void Graph::upload(const Stream& stream) const {
  DeviceState& d = device_state(device());
  d.enter();
  d.check(d.api->graph_upload(impl_->graph.exec(), static_cast<api::StreamHandle>(stream.handle())),
          "cuGraphUpload");
}

int Graph::device() const {
  if (!impl_) throw_runtime_error("this CUDA graph was never captured");
  return impl_->graph.device();
}

std::size_t Graph::size() const { return impl_ ? impl_->graph.nodes().size() : 0; }

Graph capture(FunctionRef<void()> calls, int device) {
  if (the_capture != nullptr) {
    throw_user_error("cuda::capture inside of cuda::capture", {}, "capture both at once");
  }
  Captured captured;
  const auto record = [&](const Stream& stream) {
    CaptureState state{device, static_cast<api::StreamHandle>(stream.handle()), {}};
    the_capture = &state;
    try {
      calls();
    } catch (...) {
      the_capture = nullptr;
      throw;
    }
    the_capture = nullptr;
    captured = std::move(state.captured);
  };
  Graph graph;
  graph.impl_ = std::make_shared<Graph::Impl>(device_state(device), record);
  graph.impl_->captured = std::move(captured);
  return graph;
}

}  // namespace heddle::cuda
