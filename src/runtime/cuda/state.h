// The CUDA state of this process: the functions of the driver, and the context and memory pool of
// each device in use. All of it belongs to one Environment, which a test replaces (ScopedDriver).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/cuda/memory_pool.h"

namespace heddle::cuda {

/// A device and its retained primary context. Lives as long as its Environment.
struct DeviceState {
  const api::Api* api = nullptr;
  int index = 0;
  api::Context context = nullptr;
  DeviceInfo info;
  MemoryPool pool;
  /// The kernel that was launched last, the most likely cause of an error that is reported later.
  /// Points to an interned name.
  std::atomic<const std::string*> last_kernel{nullptr};

  /// Makes the context current in this thread. Every function that calls the driver begins with it.
  /// Throws when the context is lost.
  void enter();
  /// For destructors: false where the driver must not be called any more.
  bool try_enter() noexcept;

  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  void lose(const std::string& reason);
  /// Throws for a result other than success. `what` describes the operation: "cuMemAlloc of 64
  /// bytes".
  void check(api::Result result, const char* what, const std::string* kernel = nullptr) {
    if (result != api::kSuccess) [[unlikely]]
      fail(result, what, kernel);
  }
  [[noreturn]] void fail(api::Result result, const std::string& what,
                         const std::string* kernel = nullptr);

 private:
  [[noreturn]] void throw_lost();
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::string lost_because_;
};

/// The device, initialised at first use. Throws a Runtime error that says what is missing.
DeviceState& device_state(int index);
/// The device if it is in use and CUDA works in this process, else null. For destructors.
DeviceState* find_device_state(int index) noexcept;

/// An interned name that is never freed, for DeviceState::last_kernel and Function.
const std::string* intern(const std::string& name);

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
std::string error_text(const api::Api& api, api::Result result);
/// The properties of a device from the driver; needs cuInit only.
DeviceInfo query_device(const api::Api& api, int index);

/// The answer of devices(), which is determined once.
struct Probe {
  std::vector<DeviceInfo> devices;
  std::string reason;  // why there are no devices
};
/// Asks in a child process.
Probe probe_in_child(const api::Api& api);
/// Asks in this process, after cuInit.
Probe probe_here(const api::Api& api);

/// Replaces the driver of the system by that of a test, with no device in use yet, until the end of
/// the scope. Null: no driver. Objects made with the driver must be destroyed before.
class ScopedDriver {
 public:
  explicit ScopedDriver(const api::Api* fake);
  ~ScopedDriver();
  ScopedDriver(const ScopedDriver&) = delete;
  ScopedDriver& operator=(const ScopedDriver&) = delete;

 private:
  struct Environment* outer_;
};

}  // namespace heddle::cuda
