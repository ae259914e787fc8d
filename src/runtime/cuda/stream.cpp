#include <chrono>
#include <thread>
#include <utility>

#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {
namespace {

thread_local const Stream* scoped_stream = nullptr;

}  // namespace

struct Stream::Impl {
  int device = 0;
  api::StreamHandle handle = nullptr;
  bool owned = false;

  ~Impl() {
    if (!owned) return;
    DeviceState* d = find_device_state(device);
    if (d == nullptr || !d->try_enter()) return;
    d->api->stream_synchronize(handle);
    d->pool.forget_stream(handle);
    d->api->stream_destroy(handle);
  }
};

Stream::Stream(int device) : impl_(std::make_shared<Impl>()) {
  DeviceState& d = device_state(device);
  d.enter();
  impl_->device = device;
  d.check(d.api->stream_create(&impl_->handle, api::kStreamNonBlocking), "cuStreamCreate");
  impl_->owned = true;
}

Stream Stream::wrap(void* handle, int device) {
  auto impl = std::make_shared<Impl>();
  impl->device = device;
  impl->handle = static_cast<api::StreamHandle>(handle);
  return Stream(std::move(impl));
}

Stream Stream::current(int device) {
  if (capture_of(device) == nullptr && scoped_stream != nullptr &&
      scoped_stream->device() == device) {
    return *scoped_stream;
  }
  return wrap(current_stream(device), device);
}

int Stream::device() const { return impl_->device; }
void* Stream::handle() const { return impl_->handle; }
bool Stream::borrowed() const { return !impl_->owned && impl_->handle != nullptr; }

void Stream::synchronize() const {
  DeviceState& d = device_state(impl_->device);
  d.enter();
  d.check(d.api->stream_synchronize(impl_->handle), "cuStreamSynchronize");
}

bool Stream::done() const {
  DeviceState& d = device_state(impl_->device);
  d.enter();
  const api::Result result = d.api->stream_query(impl_->handle);
  if (result == api::kNotReady) return false;
  d.check(result, "cuStreamQuery");
  return true;
}

void Stream::wait(const Event& event) const {
  DeviceState& d = device_state(impl_->device);
  d.enter();
  d.check(d.api->stream_wait_event(impl_->handle, static_cast<api::EventHandle>(event.handle()), 0),
          "cuStreamWaitEvent");
}

StreamScope::StreamScope(Stream stream)
    : stream_(std::move(stream)), outer_(std::exchange(scoped_stream, &stream_)) {}
StreamScope::~StreamScope() { scoped_stream = outer_; }

api::StreamHandle current_stream(int device) {
  if (const CaptureState* capture = capture_of(device)) return capture->stream;
  if (scoped_stream == nullptr || scoped_stream->device() != device) return nullptr;
  return static_cast<api::StreamHandle>(scoped_stream->handle());
}

// ---- events ----

Event::Event(int device) : device_(device) {
  DeviceState& d = device_state(device);
  d.enter();
  api::EventHandle handle = nullptr;
  d.check(d.api->event_create(&handle, api::kEventDefault), "cuEventCreate");
  handle_ = handle;
}

Event::Event(Event&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ == nullptr) return;
  DeviceState* d = find_device_state(device_);
  if (d != nullptr && d->try_enter()) d->api->event_destroy(static_cast<api::EventHandle>(handle_));
}

void Event::record(const Stream& stream) const {
  DeviceState& d = device_state(device_);
  d.enter();
  d.check(d.api->event_record(static_cast<api::EventHandle>(handle_),
                              static_cast<api::StreamHandle>(stream.handle())),
          "cuEventRecord");
}

bool Event::done() const {
  DeviceState& d = device_state(device_);
  d.enter();
  const api::Result result = d.api->event_query(static_cast<api::EventHandle>(handle_));
  if (result == api::kNotReady) return false;
  d.check(result, "waiting for an event");
  return true;
}

void Event::synchronize() const {
  DeviceState& d = device_state(device_);
  d.enter();
  d.check(d.api->event_synchronize(static_cast<api::EventHandle>(handle_)), "waiting for an event");
}

bool Event::wait_for(double seconds) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  while (!done()) {
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (waited > seconds) return false;
    // Short waits spin. Long waits yield the core, so that other threads can compile.
    if (waited > 2e-3) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } else {
      std::this_thread::yield();
    }
  }
  return true;
}

double Event::seconds_since(const Event& start) const {
  DeviceState& d = device_state(device_);
  d.enter();
  float milliseconds = 0;
  d.check(d.api->event_elapsed_time(&milliseconds, static_cast<api::EventHandle>(start.handle_),
                                    static_cast<api::EventHandle>(handle_)),
          "cuEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace heddle::cuda
