// Device: the CPU, or the GPU, whose memory holds an array. A plain value.
//
//   NDArray on_gpu = array.to_device(Device::cuda());
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

/// The CPU, or one GPU of this machine.
struct Device {
  enum class Kind : std::uint8_t { Cpu, Cuda };
  Kind kind = Kind::Cpu;
  int index = 0;  // number of the GPU

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {Kind::Cuda, index}; }
  constexpr bool is_cpu() const { return kind == Kind::Cpu; }
  constexpr bool is_cuda() const { return kind == Kind::Cuda; }
  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:0"
std::string to_string(Device device);

}  // namespace heddle
