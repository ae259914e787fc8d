#include "codegen/cuda/emit.h"

#include <set>

#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/names.h"
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
  if (!k.parts.empty()) s += ", of " + std::to_string(k.parts.size()) + " kernels";
  return s + "\n";
}

// A function for each part, and the kernel that shares its blocks out among them.
std::string joined_text(const GpuKernel& k, Prelude& prelude) {
  Names names;
  names.unique(k.name);
  std::string text, parameters, calls;
  const std::string gap = ",\n" + std::string(k.name.size() + 1, ' ');
  int64_t first = 0;
  for (const GpuKernel& part : k.parts) {
    KernelWriter writer(part, prelude, k.block[0]);
    text += "\n" + launch_comment(part) + writer.run();
    std::string given;
    for (size_t i = 0; i < part.args.size(); ++i) {
      const std::string name = names.unique(part.args[i]->name);
      parameters += (parameters.empty() ? "" : gap) + writer.parameter_types()[i] + name;
      given += name + ", ";
    }
    const int64_t end = first + part.grid[0] * part.grid[1] * part.grid[2],
                  threads = part.block[0] * part.block[1] * part.block[2];
    const bool last = &part == &k.parts.back();
    calls += std::string(first == 0 ? "  " : " else ") +
             (last ? "{\n" : "if (blockIdx.x < " + std::to_string(end) + ") {\n");
    if (threads < k.block[0])
      calls += "    if (threadIdx.x >= " + std::to_string(threads) + ") return;\n";
    calls += "    " + part.name + "(" + given + "blockIdx.x" +
             (first == 0 ? "" : " - " + std::to_string(first)) + ");\n  }";
    first = end;
  }
  return text + "\n" + launch_comment(k) + "extern \"C\" __global__ void __launch_bounds__(" +
         std::to_string(k.block[0]) + ")\n" + k.name + "(" + parameters + ") {\n" + calls + "\n}\n";
}

}  // namespace

std::string emit_kernels(const GpuProgram& program, Prelude& prelude) {
  std::string text;
  std::set<std::string> names;
  for (const auto* kernels : {&program.prepare, &program.main}) {
    for (const GpuKernel& k : *kernels) {
      HEDDLE_ICHECK(names.insert(k.name).second,
                    "two kernels of '" + program.name + "' have the name '" + k.name + "'");
      if (!k.parts.empty()) {
        text += joined_text(k, prelude);
        continue;
      }
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
