#include "codegen/cuda/kernel_writer.h"

#include <algorithm>

#include "codegen/cuda/text/types.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"

namespace heddle::cuda {
namespace {

constexpr int64_t kWarpGroup = 128, kRegistersOfSm = 65536;  // sm_90
// Registers of a thread where several warps share a row, where a warp or less has one, and where
// each thread has one. With 32 an SM has all threads that it can have.
constexpr int64_t kOfLongRow = 32, kOfShortRow = 48, kOfOwnRow = 64;

bool is_wide(const Var& size) { return !fits_32_bits({size->size->lo, size->size->hi}); }

// Whether no thread waits for another or takes what it has.
bool threads_work_alone(const Stmt& s) {
  bool alone = true;
  visit(
      s,
      [&](const Stmt& x) {
        const Sync* y = x.as<Sync>();
        alone &= !y || y->sync == SyncKind::GridWait;
      },
      [&](const Expr& e) { alone &= e.kind() != ExprKind::Shuffle; });
  return alone;
}

// The registers of a thread in a kernel that has versions by its sizes, which keep a row in
// registers: as many as those of the version for short rows; 0 for other kernels. The version for
// the longest rows would otherwise leave registers for fewer blocks at all sizes.
int64_t registers_of_versions(const GpuKernel& k) {
  bool versions = false;
  const auto look = [&](const Stmt& s) {
    const If* i = s.as<If>();
    versions |= i && is_symbolic(i->condition);
  };
  look(k.body);
  if (const Block* b = k.body.as<Block>()) std::for_each(b->stmts.begin(), b->stmts.end(), look);
  if (!versions || k.sizes.empty() || k.cluster > 1) return 0;
  if (threads_work_alone(k.body)) return kOfOwnRow;
  return k.block[0] > 32 ? kOfLongRow : kOfShortRow;
}

}  // namespace

KernelWriter::KernelWriter(const GpuKernel& kernel, Prelude& prelude, int64_t launch_threads)
    : kernel_(kernel),
      launch_threads_(launch_threads),
      prelude_(prelude),
      ops_(prelude),
      facts_(kernel_facts(make_block({kernel.body, kernel.tail}))) {
  warp_.written = facts_.written;
}

void KernelWriter::fail(const std::string& what) const {
  throw_internal_error("kernel '" + kernel_.name +
                       "' is not in the form that CUDA code takes: " + what);
}

std::string size_type(const Var& size) { return is_wide(size) ? "const long long " : "const int "; }

int64_t KernelWriter::blocks_of_sm() const {
  const int64_t threads = block_threads();
  if (const int64_t registers = registers_of_versions(kernel_); registers > 0)
    return std::max<int64_t>(1, kRegistersOfSm / (registers * threads));
  // Kernels whose warp groups exchange registers begin with those that as many blocks of an SM have
  // as can exchange theirs, because setmaxnreg needs a known number of registers.
  const int64_t of_block =
      kWarpGroup * (facts_.loads + (threads / kWarpGroup - 1) * facts_.multiplies);
  return facts_.passes_registers ? kRegistersOfSm / of_block : 0;
}

// What precedes the name.
std::string KernelWriter::head() const {
  if (launch_threads_ > 0) return "static __device__ __forceinline__ void ";
  const int64_t threads = block_threads(), of_sm = blocks_of_sm();
  const std::string blocks = of_sm > 0 ? ", " + std::to_string(of_sm) : "";
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + blocks +
         ")\n";
}

// Two arguments never overlap, so a pointer is __restrict__. That also promises that no other
// thread stores to the memory: the compiler may move a load of it across a barrier. An argument
// that one thread stores and another loads, after a barrier or in the last block, therefore has a
// plain pointer.
std::string KernelWriter::signature() {
  std::string s = head() + kernel_.name + "(";
  std::string gap;
  for (const Buffer& b : kernel_.args) {
    Storage storage{names_.unique(b->name)};
    const bool written = facts_.written.contains(b.get()) || b == kernel_.tickets;
    const bool passed_on = written && facts_.read.contains(b.get()) &&
                           (facts_.synchronizes || static_cast<bool>(kernel_.tail));
    parameter_types_.push_back((written ? "" : "const ") + memory_type(b->dtype) +
                               (passed_on ? "* " : "* __restrict__ "));
    s += gap + parameter_types_.back() + storage.name;
    if (!storage_.emplace(b.get(), storage).second) fail("'" + b->name + "' is an argument twice");
    gap = ",\n" + std::string(kernel_.name.size() + 1, ' ');
  }
  s += map_parameters(gap);
  // Sizes follow the maps. A launch passes each as an i64, whose low half is enough in most cases.
  for (const Var& v : kernel_.sizes) {
    const std::string name = names_.unique(v->name);
    s += s.back() == '(' ? "" : ",\n" + std::string(kernel_.name.size() + 1, ' ');
    s += size_type(v) + name;
    vars_[v.get()] = {{name, kAtom, is_wide(v)}};
    uniform_.insert(v.get());
    warp_.same.insert(v.get());
  }
  if (launch_threads_ > 0) {
    part_block_ = names_.unique("block");
    s += gap + "const unsigned " + part_block_;
  }
  return s + ") {\n";
}

// Before a block of a cluster tells the others that it has begun, it initialises the counters of
// the bytes that they store in its memory.
void KernelWriter::begin_cluster() {
  bool started = false;
  int64_t bytes = 0;
  std::vector<int64_t> waits;
  visit(
      kernel_.body,
      [&](const Stmt& s) {
        if (const Store* st = s.as<Store>(); st && has(st->hint, StoreHint::Async))
          bytes += st->buffer.num_elements() * st->buffer->dtype.bytes();
        const Sync* y = s.as<Sync>();
        started |= y && y->sync == SyncKind::Started;
        if (!y || y->sync != SyncKind::AsyncWait) return;
        waits.push_back(bytes);
        bytes = 0;
      },
      [](const Expr&) {});
  if (!waits.empty()) {
    arrivals_ = names_.unique("arrivals");
    line("__shared__ unsigned long long " + arrivals_ + "[" + std::to_string(waits.size()) + "];");
    for (size_t i = 0; i < waits.size(); ++i) {
      line(prelude_.use("expect_arrivals") + "(" + arrivals_ + " + " + std::to_string(i) + ", " +
           std::to_string(waits[i]) + ");");
    }
  }
  if (started) line(prelude_.use("cluster_started") + "();");
}

// The index of a block or of a thread along a dimension.
std::string KernelWriter::grid_index(bool of_threads, int dim) const {
  std::string index = std::string(of_threads ? "threadIdx." : "blockIdx.") + "xyz"[dim];
  if (kernel_.cluster > 1 && dim == 0) {
    const std::string blocks = std::to_string(kernel_.cluster);
    index = of_threads ? "blockIdx.x % " + blocks + " * " + std::to_string(kernel_.block[0]) +
                             " + threadIdx.x"
                       : "blockIdx.x / " + blocks;
  }
  if (kernel_.pair > 1 && dim == 0 && !of_threads) index += " / 2";
  if (!of_threads && facts_.grows[static_cast<size_t>(dim)] && kernel_.cluster <= 1 &&
      kernel_.pair <= 1)
    index = std::string("(int)(gridDim.") + "xyz"[dim] + " - 1 - " + index + ")";
  return index;
}

// The same in a part of a launch, of which grid and blocks have one dimension.
std::string KernelWriter::part_index(bool of_threads, int dim) const {
  const auto& extents = of_threads ? kernel_.block : kernel_.grid;
  int64_t before = 1, after = 1;
  for (int d = 0; d < 3; ++d) {
    if (d < dim) before *= extents[static_cast<size_t>(d)];
    if (d > dim) after *= extents[static_cast<size_t>(d)];
  }
  std::string index = of_threads ? "threadIdx.x" : part_block_;
  if (before > 1) index += " / " + std::to_string(before);
  if (after > 1) index += " % " + std::to_string(extents[static_cast<size_t>(dim)]);
  return index;
}

// Names for the indices of blocks and threads that the body uses.
void KernelWriter::bind_grid() {
  bool used[2][3] = {};
  visit(
      make_block({kernel_.body, kernel_.tail}),
      [&](const Stmt& s) {
        const For* f = s.as<For>();
        if (f && is_block(f->loop)) used[0][grid_dim(f->loop)] = true;
        if (f && is_thread(f->loop)) used[1][grid_dim(f->loop)] = true;
      },
      [](const Expr&) {});
  for (int kind = 0; kind < 2; ++kind) {
    for (int dim = 0; dim < 3; ++dim) {
      if (!used[kind][dim]) continue;
      const std::string index =
          launch_threads_ > 0 ? part_index(kind == 1, dim) : grid_index(kind == 1, dim);
      line(std::string("const int ") + "bt"[kind] + "xyz"[dim] + " = " + index + ";");
    }
  }
}

std::string KernelWriter::run() {
  if (!is_identifier(kernel_.name)) fail("its name is no identifier");
  names_.unique(kernel_.name);
  out_ = signature();
  if (kernel_.shared_bytes > 0) {
    line("extern __shared__ __align__(" + std::string(kernel_.maps.empty() ? "16" : "1024") +
         ") unsigned char smem[];");
  }
  prefetch_maps();
  if (kernel_.cluster > 1) begin_cluster();
  bind_grid();
  scopes_.emplace_back();
  statement(kernel_.body);
  if (kernel_.tail) {
    const auto& of = kernel_.grid_of;
    const bool sized = std::any_of(of.begin(), of.end(), [](const Expr& e) { return e.defined(); });
    const std::string blocks =
        sized ? "gridDim.x * gridDim.y * gridDim.z"
              : std::to_string(kernel_.grid[0] * kernel_.grid[1] * kernel_.grid[2]);
    line("if (!" + prelude_.use("last_to_finish") + "(" + storage_of(kernel_.tickets).name + ", " +
         blocks + ")) return;");
    statement(kernel_.tail);
  }
  return std::move(out_) + "}\n";
}

}  // namespace heddle::cuda
