#include "lower/gpu/memory/exchanged_registers.h"

#include <algorithm>
#include <cstdlib>

namespace heddle::gpu {
namespace {

int64_t threads_of(const GpuKernel& k) { return k.block[0] * k.block[1] * k.block[2]; }

// The registers of a thread that loads and of one that multiplies, where warp groups exchange them; zeros
// where they do not.
struct Exchange {
  int loads = 0, multiplies = 0;
  // Those of each thread before, as many blocks share a multiprocessor as these allow.
  int64_t before(const GpuKernel& k, const Gpu& gpu) const {
    constexpr int64_t kGroup = 128, kUnit = 8;
    const int64_t threads = threads_of(k);
    const int64_t blocks =
        gpu.registers_per_sm / (kGroup * (loads + (threads / kGroup - 1) * multiplies));
    return gpu.registers_per_sm / (blocks * threads) / kUnit * kUnit;
  }
};

Exchange exchange_of(const GpuKernel& k) {
  Exchange out;
  visit(
      k.body,
      [&](const Stmt& x) {
        const Sync* sync = x.as<Sync>();
        if (sync && sync->sync == SyncKind::Registers)
          (sync->pending < 0 ? out.loads : out.multiplies) = std::abs(sync->pending);
      },
      [](const Expr&) {});
  return out;
}

}  // namespace

bool exchange_alike(const std::vector<const GpuKernel*>& kernels, const Gpu& gpu) {
  const GpuKernel& first = *kernels[0];
  int64_t before = 0;
  for (const GpuKernel* k : kernels) {
    const Exchange e = exchange_of(*k);
    if ((e.multiplies > 0) != (exchange_of(first).multiplies > 0) ||
        k->maps.empty() != first.maps.empty())
      return false;
    if (e.multiplies == 0) continue;
    if (threads_of(*k) != threads_of(first)) return false;
    before = std::max(before, e.before(*k, gpu));
  }
  return std::ranges::all_of(kernels, [&](const GpuKernel* k) {
    const Exchange e = exchange_of(*k);
    return e.multiplies == 0 || e.multiplies >= before;
  });
}

}  // namespace heddle::gpu
