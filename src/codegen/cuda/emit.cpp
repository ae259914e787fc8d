#include "codegen/cuda/emit.h"

#include <set>

#include "codegen/cuda/kernel_writer.h"
#include "heddle/codegen/cuda.h"
#include "heddle/support/error.h"

namespace heddle {
namespace cuda {
namespace {

std::string launch_comment(const GpuKernel& k) {
  const auto dims = [](const std::array<int64_t, 3>& d) {
    return std::to_string(d[0]) + " x " + std::to_string(d[1]) + " x " + std::to_string(d[2]);
  };
  std::string grid = dims(k.grid);
  for (const Expr& e : k.grid_of) {
    if (e.defined()) grid = "of the sizes of the call, at most " + dims(k.grid);
  }
  std::string s = "// grid " + grid + ", block " + dims(k.block);
  if (k.shared_bytes > 0) s += ", " + std::to_string(k.shared_bytes) + " bytes of shared memory";
  if (k.cluster > 1) s += ", clusters of " + std::to_string(k.cluster) + " blocks";
  if (k.pair > 1) s += ", in pairs";
  return s + "\n";
}

}  // namespace

std::string emit_kernels(const GpuProgram& program, Prelude& prelude) {
  std::string text;
  std::set<std::string> names;
  for (const auto* kernels : {&program.prepare, &program.main}) {
    for (const GpuKernel& k : *kernels) {
      HEDDLE_ICHECK(names.insert(k.name).second,
                    "two kernels of '" + program.name + "' have the name '" + k.name + "'");
      text += "\n" + launch_comment(k) + KernelWriter(k, prelude).run();
    }
  }
  return text;
}

}  // namespace cuda

std::string emit_cuda(const GpuProgram& program) {
  cuda::Prelude prelude;
  const std::string kernels = cuda::emit_kernels(program, prelude);
  return prelude.text() + kernels;
}

}  // namespace heddle
