// Runs a GPU program: its buffers, its kernels one after the other, and their blocks.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "codegen/emulator/actions.h"
#include "heddle/codegen/emulator.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/rng.h"
#include "ir/size_line.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

using namespace emu;

constexpr int64_t kMostThreads = 1024;  // the largest block of all CUDA devices

std::string to_text(const std::array<int64_t, 3>& v) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) +
         ")";
}

/// Buffers that `kernel` writes.
std::unordered_set<const BufferNode*> written_by(const GpuKernel& kernel) {
  std::unordered_set<const BufferNode*> out;
  visit(
      make_block({kernel.body, kernel.tail}),
      [&](const Stmt& s) {
        if (const auto* store = s.as<Store>()) out.insert(store->buffer.get());
        const auto* op = s.as<TileOp>();
        if (op && op->as<tile::BulkStore>()) out.insert(op->operands[1].buffer.get());
      },
      [](const Expr&) {});
  return out;
}

class Emulation {
 public:
  explicit Emulation(const EmulatorOptions& options) : rng_(options.seed), seed_(options.seed) {}

  void add(const Buffer& b, NDArray array, bool written) {
    storages_[b.get()].hold(b, std::move(array), written);
  }
  void add_unwritten(const Buffer& b) {
    Extents shape;
    for (const Expr& e : b->shape) shape.push_back(value_of(e, "workspace '" + b->name + "'"));
    add(b, NDArray::zeros(std::move(shape), b->dtype), false);
  }

  /// Reads the sizes of the call from the shapes of its arguments.
  void read_sizes(const GpuProgram& program, const std::vector<NDArray>& args) {
    for (const Var& v : program.sizes) {
      for (size_t i = 0; i < args.size(); ++i) read_size(v, program.args[i], args[i].shape());
      HEDDLE_ICHECK(sizes_.size() == static_cast<size_t>(&v - program.sizes.data()) + 1,
                    "emulator: no argument gives the size '" + v->name + "'");
    }
  }

  void launch(const GpuKernel& kernel) {
    if (kernel.parts.empty()) return launch_alone(kernel);
    check_parts(kernel);
    // Blocks of all parts run at the same time.
    std::vector<const GpuKernel*> order;
    for (const GpuKernel& part : kernel.parts) order.push_back(&part);
    if (seed_ != 0) rng_.shuffle(order);
    for (const GpuKernel* part : order) launch_alone(*part);
  }

 private:
  void launch_alone(GpuKernel kernel) {
    for (size_t d = 0; d < 3; ++d) {
      if (!kernel.grid_of[d].defined()) continue;
      const int64_t most = kernel.grid[d];
      kernel.grid[d] = value_of(kernel.grid_of[d], "the grid of kernel '" + kernel.name + "'");
      HEDDLE_ICHECK(kernel.grid[d] <= most,
                    "the grid of kernel '" + kernel.name + "' is larger than the kernel says");
    }
    check_sizes(kernel);
    // A buffer that no thread writes cannot be raced for, so it needs no history.
    const auto written = written_by(kernel);
    std::vector<std::vector<History>> histories;
    for (auto& [buffer, storage] : storages_) {
      storage.history = nullptr;
      if (written.count(buffer) == 0) continue;
      histories.emplace_back(static_cast<size_t>(storage.size));
      storage.history = histories.back().data();
    }
    Machine machine(kernel);
    running_ = false;
    try {
      run(machine, kernel);
    } catch (Error& e) {
      std::string where = "\n  in kernel '" + kernel.name + "'";
      if (running_) where += ", block " + to_text(machine.block);
      if (machine.thread >= 0) where += ", " + machine.name_of_thread(machine.thread);
      throw Error(e.kind, e.message + where, e.where, e.help);
    }
  }

  /// Fails where the launch does not hold its parts, or one of them writes to memory that another
  /// one accesses.
  void check_parts(const GpuKernel& kernel) {
    int64_t blocks = 0;
    for (const GpuKernel& part : kernel.parts) {
      const std::string name = "part '" + part.name + "' of kernel '" + kernel.name + "' ";
      blocks += part.grid[0] * part.grid[1] * part.grid[2];
      const int64_t threads = part.block[0] * part.block[1] * part.block[2];
      HEDDLE_ICHECK(threads <= kernel.block[0],
                    name + "has " + std::to_string(threads) + " threads of a block");
      HEDDLE_ICHECK(part.shared_bytes <= kernel.shared_bytes,
                    name + "has too little shared memory");
      for (const Buffer& b : part.args)
        HEDDLE_ICHECK(holds(kernel.args, b), name + "reads '" + b->name + "', no argument of it");
      const auto written = written_by(part);
      for (const GpuKernel& other : kernel.parts) {
        if (&other == &part) continue;
        for (const Buffer& b : part.args) {
          if (written.count(b.get()) == 0) continue;
          for (const Buffer& x : other.args)
            HEDDLE_ICHECK(!overlap(b, x), name + "writes '" + b->name +
                                              "', in memory of which another part has '" + x->name +
                                              "'");
        }
      }
    }
    HEDDLE_ICHECK(kernel.grid == (std::array<int64_t, 3>{blocks, 1, 1}) && kernel.block[1] == 1 &&
                      kernel.block[2] == 1,
                  "the grid of kernel '" + kernel.name + "' is not that of its parts");
  }

  static bool holds(const std::vector<Buffer>& list, const Buffer& b) {
    return std::find(list.begin(), list.end(), b) != list.end();
  }

  bool overlap(const Buffer& a, const Buffer& b) const {
    const NDArray &x = storages_.at(a.get()).array, &y = storages_.at(b.get()).array;
    const auto* from = static_cast<const char*>(x.data());
    const auto* to = static_cast<const char*>(y.data());
    return x.size() > 0 && y.size() > 0 && from < to + y.bytes() && to < from + x.bytes();
  }

  void read_size(const Var& v, const Buffer& b, const Extents& shape) {
    if (!sizes_.empty() && sizes_.back().var.same_as(v)) return;
    for (size_t d = 0; d < b->shape.size() && d < shape.size(); ++d) {
      const std::optional<SizeLine> line = as_size_line(b->shape[d]);
      if (!line || !line->size.same_as(v)) continue;
      sizes_.push_back({v, Expr((shape[d] - line->constant) / line->factor)});
      return;
    }
  }

  int64_t value_of(const Expr& e, const std::string& what) const {
    const Expr value = simplify(substitute(e, sizes_));
    const int64_t* n = as_int(value);
    HEDDLE_ICHECK(n != nullptr, "emulator: " + what + " depends on more than the sizes");
    return *n;
  }

  static void check_sizes(const GpuKernel& kernel) {
    int64_t threads = 1;
    for (size_t d = 0; d < 3; ++d) {
      HEDDLE_ICHECK(kernel.grid[d] >= 1 && kernel.block[d] >= 1,
                    "kernel '" + kernel.name + "' has an empty grid or block");
      threads *= kernel.block[d];
    }
    HEDDLE_ICHECK(threads <= kMostThreads, "kernel '" + kernel.name + "' has blocks of " +
                                               std::to_string(threads) + " threads");
    HEDDLE_ICHECK(kernel.cluster >= 1 && kernel.grid[0] % kernel.cluster == 0,
                  "the grid of kernel '" + kernel.name + "' is no multiple of its clusters");
  }

  void run(Machine& machine, const GpuKernel& kernel) {
    ExprCompiler exprs(&machine);
    for (const VarBinding& s : sizes_) exprs.bind(s.var.get())->i = *as_int(s.value);
    for (const Buffer& b : kernel.args) {
      const auto it = storages_.find(b.get());
      HEDDLE_ICHECK(it != storages_.end(), "argument '" + b->name + "' of a kernel is not known");
      exprs.bind_array(b, &it->second);
    }
    StmtCompiler stmts(&machine, &exprs);
    const ActionPtr body = stmts.compile(kernel.body), tail = stmts.compile(kernel.tail);
    machine.program.context.statement = nullptr;
    if (body == nullptr) return;
    const auto& grid = machine.grid_dim;
    std::vector<int64_t> blocks(static_cast<size_t>(grid[0] * grid[1] * grid[2]));
    std::iota(blocks.begin(), blocks.end(), 0);
    if (seed_ != 0) rng_.shuffle(blocks);
    running_ = true;
    for (const int64_t b : blocks) {
      for (int rank = 0; rank < kernel.pair; ++rank) {
        machine.rank = rank;
        machine.start_block({b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]});
        body->run(turns(machine.threads));
        machine.finish_block();
      }
    }
    machine.stores.finish_launch();
    if (tail == nullptr) return;
    machine.start_tail();
    tail->run(turns(machine.threads));
    machine.finish_block();
  }

  /// The threads of a block, warp by warp.
  Active turns(int threads) {
    std::vector<int> warps(static_cast<size_t>((threads + kWarp - 1) / kWarp));
    std::iota(warps.begin(), warps.end(), 0);
    if (seed_ != 0) rng_.shuffle(warps);
    Active all;
    for (const int w : warps) {
      for (int t = w * kWarp; t < std::min(threads, (w + 1) * kWarp); ++t) all.push_back(t);
    }
    return all;
  }

  Rng rng_;
  uint64_t seed_;
  bool running_ = false;
  std::vector<VarBinding> sizes_;
  std::unordered_map<const BufferNode*, Storage> storages_;
};

}  // namespace

void emulate(const GpuProgram& program, const std::vector<NDArray>& args,
             const EmulatorOptions& options) {
  if (args.size() != program.args.size()) {
    throw_user_error("'" + program.name + "' takes " + std::to_string(program.args.size()) +
                     " arguments, got " + std::to_string(args.size()));
  }
  Emulation emulation(options);
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].defined()) {
      throw_user_error("argument '" + program.args[i]->name + "': no array");
    }
    emulation.add(program.args[i], args[i], true);
  }
  emulation.read_sizes(program, args);
  for (const Buffer& b : program.workspace) emulation.add_unwritten(b);
  for (const Buffer& b : program.persistent) emulation.add_unwritten(b);
  for (const GpuKernel& k : program.prepare) emulation.launch(k);
  for (const GpuKernel& k : program.main) emulation.launch(k);
}

}  // namespace heddle
