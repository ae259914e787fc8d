#include "runtime/cuda/driver_graph.h"

#include <algorithm>

namespace heddle::cuda {

DriverGraph::DriverGraph(DeviceState& d, FunctionRef<void(const Stream&)> work) : device_(d.index) {
  d.enter();
  const Stream stream(d.index);
  const auto handle = static_cast<api::StreamHandle>(stream.handle());
  // Relaxed mode allows allocations during the capture; they are not part of the graph.
  d.check(d.api->stream_begin_capture(handle, api::kCaptureRelaxed), "cuStreamBeginCapture");
  try {
    work(stream);
  } catch (...) {
    if (d.try_enter() && d.api->stream_end_capture(handle, &recorded_) == api::kSuccess &&
        recorded_ != nullptr) {
      d.api->graph_destroy(recorded_);
    }
    throw;
  }
  d.enter();
  d.check(d.api->stream_end_capture(handle, &recorded_), "cuStreamEndCapture");
  std::size_t count = 0;
  d.api->graph_get_nodes(recorded_, nullptr, &count);
  nodes_.resize(count);
  if (count > 0) d.api->graph_get_nodes(recorded_, nodes_.data(), &count);
  const api::Result made = d.api->graph_instantiate(&exec_, recorded_, 0);
  if (made != api::kSuccess) d.api->graph_destroy(recorded_);
  d.check(made, "cuGraphInstantiate");
}

DriverGraph::~DriverGraph() {
  DeviceState* d = find_device_state(device_);
  if (d == nullptr || !d->try_enter()) return;
  for (const Stream& stream : launched_on_)
    d->api->stream_synchronize(static_cast<api::StreamHandle>(stream.handle()));
  if (last_) d->api->event_synchronize(static_cast<api::EventHandle>(last_->handle()));
  d->api->graph_exec_destroy(exec_);
  d->api->graph_destroy(recorded_);
}

void DriverGraph::launch(const Stream& stream) {
  DeviceState& d = device_state(device_);
  d.enter();
  const std::lock_guard lock(mutex_);
  d.check(d.api->graph_launch(exec_, static_cast<api::StreamHandle>(stream.handle())),
          "cuGraphLaunch");
  if (stream.borrowed()) {
    if (!last_) last_.emplace(device_);
    last_->record(stream);
  } else if (std::ranges::find(launched_on_, stream.handle(), &Stream::handle) ==
             launched_on_.end()) {
    launched_on_.push_back(stream);
  }
}

}  // namespace heddle::cuda
