#include "codegen/cuda/kernel_writer.h"

#include "codegen/cuda/types.h"
#include "heddle/support/error.h"

namespace heddle::cuda {

KernelWriter::KernelWriter(const GpuKernel& kernel, Prelude& prelude)
    : kernel_(kernel),
      prelude_(prelude),
      ops_(prelude),
      facts_(kernel_facts(make_block({kernel.body, kernel.tail}))) {}

void KernelWriter::fail(const std::string& what) const {
  throw_internal_error("kernel '" + kernel_.name +
                       "' is not in the form that CUDA code takes: " + what);
}

// Two arguments never overlap, so each pointer is the only way to its memory.
std::string KernelWriter::signature() {
  const int64_t threads = kernel_.block[0] * kernel_.block[1] * kernel_.block[2];
  std::string s = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) +
                  ")\n" + kernel_.name + "(";
  std::string gap;
  for (const Buffer& b : kernel_.args) {
    Storage storage{names_.unique(b->name)};
    const bool written = facts_.written.contains(b.get()) || (kernel_.tail && b == kernel_.tickets);
    s += gap + (written ? "" : "const ") + memory_type(b->dtype) + "* __restrict__ " + storage.name;
    if (!storage_.emplace(b.get(), storage).second) fail("'" + b->name + "' is an argument twice");
    gap = ",\n" + std::string(kernel_.name.size() + 1, ' ');
  }
  return s + ") {\n";
}

// Names for the indices of blocks and threads that the body uses.
void KernelWriter::bind_grid() {
  bool used[2][3] = {};
  bool waits_for_start = false;
  visit(
      make_block({kernel_.body, kernel_.tail}),
      [&](const Stmt& s) {
        const For* f = s.as<For>();
        if (f && is_block(f->loop)) used[0][grid_dim(f->loop)] = true;
        if (f && is_thread(f->loop)) used[1][grid_dim(f->loop)] = true;
        const Sync* y = s.as<Sync>();
        waits_for_start |= y && y->sync == SyncKind::Started;
      },
      [](const Expr&) {});
  if (waits_for_start) line(prelude_.use("cluster_started") + "();");
  for (int kind = 0; kind < 2; ++kind) {
    for (int dim = 0; dim < 3; ++dim) {
      if (!used[kind][dim]) continue;
      const char letter = "xyz"[dim];
      std::string index = std::string(kind ? "threadIdx." : "blockIdx.") + letter;
      if (kernel_.cluster > 1 && dim == 0) {
        const std::string blocks = std::to_string(kernel_.cluster);
        index = kind ? "blockIdx.x % " + blocks + " * " + std::to_string(kernel_.block[0]) +
                           " + threadIdx.x"
                     : "blockIdx.x / " + blocks;
      }
      line(std::string("const int ") + "bt"[kind] + letter + " = " + index + ";");
    }
  }
}

std::string KernelWriter::run() {
  if (!is_identifier(kernel_.name)) fail("its name is no identifier");
  names_.unique(kernel_.name);
  out_ = signature();
  if (kernel_.shared_bytes > 0) line("extern __shared__ __align__(16) unsigned char smem[];");
  bind_grid();
  scopes_.emplace_back();
  statement(kernel_.body);
  if (kernel_.tail) {
    const int64_t blocks = kernel_.grid[0] * kernel_.grid[1] * kernel_.grid[2];
    line("if (!" + prelude_.use("last_to_finish") + "(" + storage_of(kernel_.tickets).name + ", " +
         std::to_string(blocks) + ")) return;");
    statement(kernel_.tail);
  }
  return std::move(out_) + "}\n";
}

}  // namespace heddle::cuda
