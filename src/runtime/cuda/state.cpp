#include "runtime/cuda/state.h"

#include <pthread.h>

#include <set>

#include "heddle/support/error.h"
#include "support/out_of_memory.h"

namespace heddle::cuda {

struct Environment {
  const api::Api* api = nullptr;
  bool loaded = false;  // whether the driver was searched for
  std::string missing;  // why there is none
  std::unique_ptr<const api::Api> own;
  std::optional<Probe> probe;
  bool initialised = false;  // cuInit was called here
  bool forked = false;       // cuInit was called by the process that this one was forked from
  std::vector<std::unique_ptr<DeviceState>> devices;
  std::mutex mutex;

  const api::Api* driver() {
    if (!loaded) {
      loaded = true;
      own = api::load_driver(missing);
      api = own.get();
    }
    return api;
  }
};

namespace {

// Never deleted, because arrays of static storage may be destroyed last.
std::atomic<Environment*> the_environment{nullptr};

Environment& environment() {
  if (Environment* existing = the_environment.load(std::memory_order_acquire)) return *existing;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (the_environment.load() == nullptr) {
    the_environment.store(new Environment);
    static const bool watches_fork = [] {
      // CUDA does not survive a fork. A fork during a call may leave the mutex locked for ever, so
      // the environment of the child starts with a state that needs no lock.
      return ::pthread_atfork(nullptr, nullptr, [] {
               Environment* old = the_environment.load();
               if (old == nullptr) return;
               auto* fresh = new Environment;
               fresh->forked = old->initialised;
               if (old->loaded &&
                   old->own == nullptr) {  // no driver was found, or the API is that of a test
                 fresh->api = old->api;
                 fresh->missing = old->missing;
                 fresh->loaded = true;
               }
               if (old->mutex.try_lock()) fresh->probe = old->probe;
               the_environment.store(fresh);
             }) == 0;
    }();
    (void)watches_fork;
  }
  return *the_environment.load();
}

// Errors after which every CUDA call fails with the same error, because the context is lost.
bool loses_context(api::Result result) {
  switch (result) {
    case 4:    // deinitialized
    case 201:  // invalid context
    case 214:  // uncorrectable ECC error
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context is destroyed
    case 710:  // assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 721:  // contained
    case 999:  // unknown
      return true;
    default: return false;
  }
}

constexpr const char* kNoGpuHelp =
    "an NVIDIA GPU with its driver is needed here; kernels for the CPU run without "
    "(Target::host())";

}  // namespace

std::string error_text(const api::Api& api, api::Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  api.get_error_name(result, &name);
  api.get_error_string(result, &text);
  return (name != nullptr ? std::string(name) : "CUDA error " + std::to_string(result)) +
         (text != nullptr ? " (" + std::string(text) + ")" : "");
}

const std::string* intern(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> names;  // a node never moves
  const std::lock_guard lock(mutex);
  return &*names.insert(name).first;
}

// ---- devices ----

bool initialised() {
  Environment& env = environment();
  const std::lock_guard lock(env.mutex);
  return env.initialised;
}

DeviceState& device_state(int index) {
  Environment& env = environment();
  const std::lock_guard lock(env.mutex);
  if (env.forked) {
    throw_runtime_error("CUDA does not work in this process: its parent used it before forking", {},
                        "fork first, or start the child with exec");
  }
  if (index >= 0 && index < static_cast<int>(env.devices.size()) &&
      env.devices[static_cast<std::size_t>(index)] != nullptr) {
    return *env.devices[static_cast<std::size_t>(index)];
  }
  const api::Api* api = env.driver();
  if (api == nullptr) throw_runtime_error("no GPU: " + env.missing, {}, kNoGpuHelp);
  auto check = [&](api::Result result, const std::string& what) {
    if (result == api::kSuccess) return;
    throw_runtime_error("CUDA: " + what + " failed: " + error_text(*api, result), {}, kNoGpuHelp);
  };
  if (!env.initialised) {
    check(api->init(0), "cuInit");
    env.initialised = true;
  }
  int count = 0;
  check(api->device_get_count(&count), "cuDeviceGetCount");
  if (index < 0 || index >= count) {
    throw_runtime_error("there is no " + to_string(Device::cuda(index)) + ": the driver has " +
                            std::to_string(count) + " device" + (count == 1 ? "" : "s"),
                        {}, count == 0 ? kNoGpuHelp : "");
  }
  auto state = std::make_unique<DeviceState>();
  state->api = api;
  state->index = index;
  state->info = query_device(*api, index);
  api::DeviceId id = 0;
  check(api->device_get(&id, index), "cuDeviceGet");
  // Kept until the end of the process, because other libraries use the same context.
  check(api->primary_ctx_retain(&state->context, id),
        "the context of " + to_string(Device::cuda(index)));
  env.devices.resize(std::max<std::size_t>(env.devices.size(), static_cast<std::size_t>(count)));
  return *(env.devices[static_cast<std::size_t>(index)] = std::move(state));
}

DeviceState* find_device_state(int index) noexcept {
  Environment* env = the_environment.load(std::memory_order_acquire);
  if (env == nullptr) return nullptr;
  const std::lock_guard lock(env->mutex);
  if (index < 0 || index >= static_cast<int>(env->devices.size())) return nullptr;
  return env->devices[static_cast<std::size_t>(index)].get();
}

void DeviceState::enter() {
  if (is_lost()) throw_lost();
  // Another library may have changed the current context. Asking takes about ten nanoseconds.
  api::Context current = nullptr;
  api->ctx_get_current(&current);
  if (current != context) check(api->ctx_set_current(context), "cuCtxSetCurrent");
}

bool DeviceState::try_enter() noexcept {
  if (is_lost()) return false;
  api::Context current = nullptr;
  if (api->ctx_get_current(&current) != api::kSuccess) return false;  // the process is ending
  return current == context || api->ctx_set_current(context) == api::kSuccess;
}

void DeviceState::lose(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (lost_because_.empty()) lost_because_ = reason;
  lost_.store(true, std::memory_order_release);
}

void DeviceState::throw_lost() {
  std::string because;
  {
    const std::lock_guard lock(mutex_);
    because = lost_because_;
  }
  throw_runtime_error(
      "this process has lost its context on " + to_string(Device::cuda(index)) + ": " + because, {},
      "start a new process; compute-sanitizer finds the place in the kernel");
}

void DeviceState::fail(api::Result result, const std::string& what, const std::string* kernel) {
  std::string text = "CUDA: " + what + " failed";
  if (kernel != nullptr) text += " for kernel '" + *kernel + "'";
  text += ": " + error_text(*api, result);
  if (result == api::kOutOfMemory) throw internal::OutOfMemory(text);
  if (!loses_context(result)) throw_runtime_error(text);
  const std::string* last = last_kernel.load();
  if (kernel == nullptr && last != nullptr)
    text += "; the last kernel launched was '" + *last + "'";
  lose(text);
  throw_lost();
}

std::vector<DeviceInfo> devices() {
  Environment& env = environment();
  const std::lock_guard lock(env.mutex);
  if (!env.probe) {
    const api::Api* api = env.driver();
    if (api == nullptr) {
      env.probe = Probe{{}, env.missing};
    } else {
      env.probe = env.initialised ? probe_here(*api) : probe_in_child(*api);
    }
  }
  return env.probe->devices;
}

bool available() { return !devices().empty(); }

std::string unavailable_reason() {
  if (available()) return {};
  Environment& env = environment();
  const std::lock_guard lock(env.mutex);
  return env.probe->reason;
}

void synchronize(int device) {
  DeviceState& d = device_state(device);
  d.enter();
  d.check(d.api->ctx_synchronize(), "cuCtxSynchronize");
}

bool context_lost(int device) {
  const DeviceState* d = find_device_state(device);
  return d != nullptr && d->is_lost();
}

void abandon(int device, const std::string& reason) { device_state(device).lose(reason); }

MemoryStats memory_stats(int device) {
  const DeviceState* d = find_device_state(device);
  return d != nullptr ? d->pool.stats() : MemoryStats{};
}

void release_memory(int device) {
  DeviceState* d = find_device_state(device);
  if (d == nullptr) return;
  d->enter();
  d->check(d->api->ctx_synchronize(), "cuCtxSynchronize");
  d->pool.release(*d);
}

// ---- tests ----

ScopedDriver::ScopedDriver(const api::Api* fake) {
  outer_ = &environment();
  auto* env = new Environment;
  env->api = fake;
  env->loaded = true;
  if (fake == nullptr) env->missing = "the NVIDIA driver was not found: a test says so";
  the_environment.store(env);
}

ScopedDriver::~ScopedDriver() { delete the_environment.exchange(outer_); }

}  // namespace heddle::cuda
