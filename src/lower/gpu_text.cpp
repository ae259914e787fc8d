#include "heddle/ir/print.h"
#include "heddle/lower/gpu_program.h"

namespace heddle {
namespace {

std::string dims(const std::array<int64_t, 3>& d) {
  return std::to_string(d[0]) + " x " + std::to_string(d[1]) + " x " + std::to_string(d[2]);
}

}  // namespace

std::string to_string(const GpuKernel& k) {
  std::string out = "// grid " + dims(k.grid) + ", block " + dims(k.block) + ", " +
                    std::to_string(k.shared_bytes) + " bytes of shared memory";
  if (k.cluster > 1) out += ", clusters of " + std::to_string(k.cluster);
  out += "\n" + to_string(LoweredFunction{k.name, k.args, k.body});
  if (k.tail) out += "// then, in the last block to finish\n" + to_string(k.tail);
  return out;
}

std::string to_string(const GpuProgram& p) {
  std::string out;
  for (const GpuKernel& k : p.prepare) out += to_string(k);
  for (const GpuKernel& k : p.main) out += to_string(k);
  return out;
}

}  // namespace heddle
