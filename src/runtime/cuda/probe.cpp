// Finds the devices of this machine in a child process. CUDA, once initialised, does not survive a
// fork, and a process that only lists devices must still be able to fork its workers.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "runtime/cuda/state.h"

namespace heddle::cuda {
namespace {

// cuInit of a machine with eight GPUs takes some two seconds.
constexpr int kPatienceMs = 30000;
constexpr int kMostDevices = 16;

void copy_text(char* to, std::size_t size, const std::string& text) {
  const std::size_t n = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

// The child writes a Header, then one Wire for each device.
struct Header {
  int count = 0;
  char reason[512] = {};
};
struct Wire {
  int numbers[17] = {};
  std::int64_t memory_bytes = 0;
  char name[256] = {};
};
static_assert(std::is_trivially_copyable_v<Wire>);

constexpr int DeviceInfo::* kNumbers[] = {
    &DeviceInfo::index,
    &DeviceInfo::major,
    &DeviceInfo::minor,
    &DeviceInfo::sms,
    &DeviceInfo::warp_size,
    &DeviceInfo::threads_per_block,
    &DeviceInfo::threads_per_sm,
    &DeviceInfo::blocks_per_sm,
    &DeviceInfo::registers_per_sm,
    &DeviceInfo::smem_per_block,
    &DeviceInfo::smem_per_block_optin,
    &DeviceInfo::smem_per_sm,
    &DeviceInfo::smem_reserved,
    &DeviceInfo::l2_bytes,
    &DeviceInfo::clock_khz,
    &DeviceInfo::memory_clock_khz,
    &DeviceInfo::memory_bus_bits,
};
static_assert(std::size(kNumbers) == std::size(Wire().numbers));

bool write_all(int file, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int file, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    pollfd ready{file, POLLIN, 0};
    const int polled = ::poll(&ready, 1, kPatienceMs);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    const ssize_t n = ::read(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

void answer(const api::Api& api, int file) {
  const Probe probe = probe_here(api);
  Header header;
  header.count = static_cast<int>(std::min<std::size_t>(probe.devices.size(), kMostDevices));
  copy_text(header.reason, sizeof header.reason, probe.reason);
  if (!write_all(file, &header, sizeof header)) return;
  for (int i = 0; i < header.count; ++i) {
    const DeviceInfo& info = probe.devices[static_cast<std::size_t>(i)];
    Wire wire;
    int n = 0;
    for (int DeviceInfo::* number : kNumbers) wire.numbers[n++] = info.*number;
    wire.memory_bytes = info.memory_bytes;
    copy_text(wire.name, sizeof wire.name, info.name);
    if (!write_all(file, &wire, sizeof wire)) return;
  }
}

Probe receive(int file) {
  Header header;
  if (!read_all(file, &header, sizeof header)) {
    return {{}, "the NVIDIA driver did not answer (it crashed, or took more than 30 seconds)"};
  }
  Probe probe{{}, header.reason};
  for (int i = 0; i < header.count; ++i) {
    Wire wire;
    if (!read_all(file, &wire, sizeof wire)) return {{}, "the NVIDIA driver did not answer"};
    DeviceInfo info;
    int n = 0;
    for (int DeviceInfo::* number : kNumbers) info.*number = wire.numbers[n++];
    info.memory_bytes = wire.memory_bytes;
    info.name = wire.name;
    probe.devices.push_back(std::move(info));
  }
  return probe;
}

}  // namespace

DeviceInfo query_device(const api::Api& api, int index) {
  DeviceInfo info;
  info.index = index;
  api::DeviceId id = 0;
  api.device_get(&id, index);
  char name[256] = {};
  api.device_get_name(name, sizeof name - 1, id);
  info.name = name;
  std::size_t memory = 0;
  api.device_total_mem(&memory, id);
  info.memory_bytes = static_cast<std::int64_t>(memory);
  // An attribute that a driver does not know stays 0.
  auto get = [&](int attribute) {
    int value = 0;
    return api.device_get_attribute(&value, attribute, id) == api::kSuccess ? value : 0;
  };
  info.major = get(api::kComputeCapabilityMajor);
  info.minor = get(api::kComputeCapabilityMinor);
  info.sms = get(api::kMultiprocessorCount);
  info.warp_size = get(api::kWarpSize);
  info.threads_per_block = get(api::kMaxThreadsPerBlock);
  info.threads_per_sm = get(api::kMaxThreadsPerMultiprocessor);
  info.blocks_per_sm = get(api::kMaxBlocksPerMultiprocessor);
  info.registers_per_sm = get(api::kRegistersPerMultiprocessor);
  info.smem_per_block = get(api::kSharedMemoryPerBlock);
  info.smem_per_block_optin = get(api::kSharedMemoryPerBlockOptin);
  info.smem_per_sm = get(api::kSharedMemoryPerMultiprocessor);
  info.smem_reserved = get(api::kReservedSharedMemoryPerBlock);
  info.l2_bytes = get(api::kL2CacheSize);
  info.clock_khz = get(api::kClockRate);
  info.memory_clock_khz = get(api::kMemoryClockRate);
  info.memory_bus_bits = get(api::kMemoryBusWidth);
  return info;
}

Probe probe_here(const api::Api& api) {
  if (const api::Result r = api.init(0)) return {{}, "cuInit failed: " + error_text(api, r)};
  int count = 0;
  if (const api::Result r = api.device_get_count(&count)) {
    return {{}, "cuDeviceGetCount failed: " + error_text(api, r)};
  }
  if (count == 0) return {{}, "the NVIDIA driver knows no device"};
  Probe probe;
  for (int i = 0; i < count; ++i) probe.devices.push_back(query_device(api, i));
  return probe;
}

Probe probe_in_child(const api::Api& api) {
  int pipe[2];
  if (::pipe(pipe) != 0) return {{}, "no pipe to a child process that asks the driver"};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    answer(api, pipe[1]);
    ::_exit(0);  // runs nothing of the parent's
  }
  ::close(pipe[1]);
  Probe probe{{}, "no child process to ask the driver"};
  if (child > 0) {
    probe = receive(pipe[0]);
    ::kill(child, SIGKILL);  // it may hang or have finished
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(pipe[0]);
  return probe;
}

}  // namespace heddle::cuda
