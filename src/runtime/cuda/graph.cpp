#include <utility>

#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"
#include "runtime/cuda/callers_capture.h"
#include "runtime/cuda/capture.h"
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

struct Graph::Impl {
  int device = 0;
  api::GraphExec exec = nullptr;
  std::size_t size = 0;
  Captured captured;
  std::mutex mutex;
  std::vector<Stream> launched_on;  // streams whose last launches must be waited for

  ~Impl() {
    DeviceState* d = find_device_state(device);
    if (d == nullptr || exec == nullptr || !d->try_enter()) return;
    for (const Stream& stream : launched_on) {
      d->api->stream_synchronize(static_cast<api::StreamHandle>(stream.handle()));
    }
    d->api->graph_exec_destroy(exec);
  }
};

void Graph::launch() const { launch(Stream::current(device())); }

void Graph::launch(const Stream& stream) const {
  DeviceState& d = device_state(device());
  d.enter();
  {
    const std::lock_guard lock(impl_->mutex);
    bool known = false;
    for (const Stream& s : impl_->launched_on) known |= s.handle() == stream.handle();
    if (!known) impl_->launched_on.push_back(stream);
  }
  d.check(d.api->graph_launch(impl_->exec, static_cast<api::StreamHandle>(stream.handle())),
          "cuGraphLaunch");
}

void Graph::upload(const Stream& stream) const {
  DeviceState& d = device_state(device());
  d.enter();
  d.check(d.api->graph_upload(impl_->exec, static_cast<api::StreamHandle>(stream.handle())),
          "cuGraphUpload");
}

int Graph::device() const {
  if (!impl_) throw_runtime_error("this CUDA graph was never captured");
  return impl_->device;
}

std::size_t Graph::size() const { return impl_ ? impl_->size : 0; }

Graph capture(FunctionRef<void()> calls, int device) {
  if (the_capture != nullptr) {
    throw_user_error("cuda::capture inside of cuda::capture", {}, "capture both at once");
  }
  DeviceState& d = device_state(device);
  d.enter();
  Graph graph;
  graph.impl_ = std::make_shared<Graph::Impl>();
  graph.impl_->device = device;
  const Stream stream(device);
  CaptureState state{device, static_cast<api::StreamHandle>(stream.handle()), {}};
  // Relaxed mode allows allocations during the capture; they are not part of the graph.
  d.check(d.api->stream_begin_capture(state.stream, api::kCaptureRelaxed), "cuStreamBeginCapture");
  api::GraphHandle recorded = nullptr;
  the_capture = &state;
  try {
    calls();
  } catch (...) {
    the_capture = nullptr;
    if (d.try_enter() && d.api->stream_end_capture(state.stream, &recorded) == api::kSuccess &&
        recorded != nullptr) {
      d.api->graph_destroy(recorded);
    }
    throw;
  }
  the_capture = nullptr;
  d.enter();
  d.check(d.api->stream_end_capture(state.stream, &recorded), "cuStreamEndCapture");
  std::size_t nodes = 0;
  d.api->graph_get_nodes(recorded, nullptr, &nodes);
  graph.impl_->size = nodes;
  graph.impl_->captured = std::move(state.captured);
  const api::Result made = d.api->graph_instantiate(&graph.impl_->exec, recorded, 0);
  d.api->graph_destroy(recorded);
  d.check(made, "cuGraphInstantiate");
  return graph;
}

}  // namespace heddle::cuda
