#include "schedule/groups/machine_rates.h"

#include <algorithm>

#include "heddle/instruction/instruction.h"

namespace heddle {
namespace {

constexpr double kClock = 3e9;  // cycles a second of a CPU
// Bytes of one core in a cycle, read and written, from each cache and from the memory; and of the
// memory for all cores. A copy on a Zen 5 moves 70, 38, 27 and 5 to 7, one on a Xeon fewer.
constexpr double kOfL1 = 64, kOfL2 = 32, kOfL3 = 16, kOfMemory = 5, kMostOfMemory = 80;
// What the second cache of a GPU delivers more than its memory.
constexpr double kGpuCache = 2;
constexpr double kStartSeconds = 2e-6, kCallSeconds = 2e-7;
// What matrix units do of two-byte elements more than other units do of floats.
constexpr double kMatrixUnits = 8;

std::vector<MachineRates::Level> levels_of_cpu(const Target& target, double cores) {
  const auto held = [](int64_t bytes, double caches) {
    return caches * static_cast<double>(bytes);
  };
  return {{held(target.l1d_bytes, cores), kOfL1 * kClock * cores},
          {held(target.l2_bytes, cores), kOfL2 * kClock * cores},
          {held(target.l3_bytes, 1), kOfL3 * kClock * cores},
          {0, std::min(kOfMemory * cores, kMostOfMemory) * kClock}};
}

}  // namespace

double MachineRates::seconds_of(double bytes, double touched) const {
  const auto level = std::find_if(levels.begin(), levels.end() - 1,
                                  [&](const Level& l) { return touched <= l.held; });
  return bytes / level->bytes;
}

MachineRates rates_of(const Target& target) {
  if (target.is_cuda()) {
    const Gpu& gpu = target.gpu;
    const double flops = 2e6 * gpu.sms * gpu.f32_lanes * gpu.clock_mhz,
                 memory = gpu.bandwidth_gbs * 1e9;
    return {flops,         kMatrixUnits * flops,
            flops,         {{static_cast<double>(gpu.l2_bytes), kGpuCache * memory}, {0, memory}},
            kStartSeconds, kStartSeconds};
  }
  const double cores = std::max(1, target.cores);
  const auto flops = [&](int bytes) {
    return 2.0 * target.fma_units * target.vector_lanes(bytes) * kClock * cores;
  };
  return {flops(4),      flops(2),     kClock * cores, levels_of_cpu(target, cores),
          kStartSeconds, kCallSeconds, cores};
}

bool multiplies(const Target& target, DataType a, DataType b) {
  const DataType wide = a.is_float() ? f32 : i32;
  const auto is_here = [&](const MachineInstruction& x) {
    const InstructionForm* form = x.form({wide, a, b});
    return (a != f32 || x.rounds_to_tf32) && form && x.legal(target, *form);
  };
  const auto& dots = dot_instructions();
  const auto& matrices = matrix_instructions();
  return std::any_of(dots.begin(), dots.end(), is_here) ||
         std::any_of(matrices.begin(), matrices.end(),
                     [&](const MachineInstruction* m) { return is_here(*m); });
}

double product_flops(const MachineRates& rates, const Target& target, DataType a, DataType b,
                     bool tf32) {
  const bool wide = a.bytes() > 2 || b.bytes() > 2;
  if (wide ? !tf32 : !multiplies(target, a, b)) return rates.flops;
  if (wide) return multiplies(target, a, b) ? rates.narrow_flops / 2 : rates.flops;
  return rates.narrow_flops * (a.bytes() == 1 && b.bytes() == 1 ? 2 : 1);
}

}  // namespace heddle
