#include "codegen/cuda/emit.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/names.h"
#include "heddle/codegen/cuda.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/memory/join_kernels.h"

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

using SizeNames = std::vector<std::pair<const VarNode*, std::string>>;

const std::string& name_of(const SizeNames& names, const VarNode* v) {
  const auto it = std::ranges::find(names, v, &SizeNames::value_type::first);
  HEDDLE_ICHECK(it != names.end(), "'" + v->name + "' is no size of the kernel");
  return it->second;
}

// A number of blocks. Its parts are not negative, so that quotients of C++ are those of the sizes.
std::string blocks_text(const Expr& e, const SizeNames& names) {
  if (const int64_t* n = as_int(e)) return std::to_string(*n);
  if (const VarNode* v = e.as<VarNode>()) return "(long long)" + name_of(names, v);
  const Binary* b = e.as<Binary>();
  HEDDLE_ICHECK(b && range_of(e, {}).min >= 0, "a number of blocks is no expression of sizes");
  const std::string x = blocks_text(b->a, names), y = blocks_text(b->b, names);
  const auto between = [&](const char* op) { return "(" + x + op + y + ")"; };
  switch (b->op) {
    case BinaryOp::Add: return between(" + ");
    case BinaryOp::Sub: return between(" - ");
    case BinaryOp::Mul: return between(" * ");
    case BinaryOp::FloorDiv: return between(" / ");
    case BinaryOp::FloorMod: return between(" % ");
    case BinaryOp::Min: return "min(" + x + ", " + y + ")";
    case BinaryOp::Max: return "max(" + x + ", " + y + ")";
    default: throw_internal_error("a number of blocks is no sum, product or quotient of sizes");
  }
}

// The blocks of the parts of a kernel, shared out.
struct PartBlocks {
  const SizeNames& sizes;
  Names& names;
  std::string text;  // what defines those ends that depend on sizes
  Expr end;          // of the parts before

  // The end of the part's blocks.
  std::string take(const GpuKernel& part) {
    end = simplify(end + gpu::blocks_of(part));
    if (const int64_t* n = as_int(end)) return std::to_string(*n);
    const std::string name = names.unique("end");
    text += "  const unsigned " + name + " = " + blocks_text(end, sizes) + ";\n";
    return name;
  }
};

// A function for each part, and the kernel that shares its blocks out among them.
std::string joined_text(const GpuKernel& k, Prelude& prelude) {
  Names names;
  names.unique(k.name);
  std::string text, parameters, calls, first = "0";
  const std::string gap = ",\n" + std::string(k.name.size() + 1, ' ');
  std::vector<std::string> given;
  std::string maps;
  int64_t of_sm = 0;
  for (const GpuKernel& part : k.parts) {
    KernelWriter writer(part, prelude, k.block[0]);
    text += "\n" + launch_comment(part) + writer.run();
    if (const int64_t n = writer.blocks_of_sm(); n > 0) of_sm = of_sm > 0 ? std::min(of_sm, n) : n;
    given.emplace_back();
    for (size_t i = 0; i < part.args.size(); ++i) {
      const std::string name = names.unique(part.args[i]->name);
      parameters += (parameters.empty() ? "" : gap) + writer.parameter_types()[i] + name;
      given.back() += name + ", ";
    }
    for (const GpuKernel::TensorMap& m : part.maps) {
      const std::string name = names.unique("map_" + m.source->name);
      maps += gap + "const __grid_constant__ " + prelude.use("TensorMap") + " " + name;
      given.back() += name + ", ";
    }
  }
  parameters += maps;
  SizeNames sizes;
  for (const Var& v : k.sizes) {
    sizes.emplace_back(v.get(), names.unique(v->name));
    parameters += (parameters.empty() ? "" : gap) + size_type(v) + sizes.back().second;
  }
  PartBlocks blocks{sizes, names, "", Expr(int64_t{0})};
  for (size_t p = 0; p < k.parts.size(); ++p) {
    const GpuKernel& part = k.parts[p];
    for (const Var& v : part.sizes) given[p] += name_of(sizes, v.get()) + ", ";
    const int64_t threads = part.block[0] * part.block[1] * part.block[2];
    const bool last = p + 1 == k.parts.size();
    const std::string end = last ? "" : blocks.take(part);
    calls += std::string(p == 0 ? "  " : " else ") +
             (last ? "{\n" : "if (blockIdx.x < " + end + ") {\n");
    if (threads < k.block[0])
      calls += "    if (threadIdx.x >= " + std::to_string(threads) + ") return;\n";
    calls += "    " + part.name + "(" + given[p] + "blockIdx.x" + (p == 0 ? "" : " - " + first) +
             ");\n  }";
    first = end;
  }
  return text + "\n" + launch_comment(k) + "extern \"C\" __global__ void __launch_bounds__(" +
         std::to_string(k.block[0]) + (of_sm > 0 ? ", " + std::to_string(of_sm) : "") + ")\n" +
         k.name + "(" + parameters + ") {\n" + blocks.text + calls + "\n}\n";
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
