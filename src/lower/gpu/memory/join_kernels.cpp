#include "lower/gpu/memory/join_kernels.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/memory/exchanged_registers.h"
#include "lower/gpu/memory/renamed_buffers.h"
#include "target/grid_limits.h"

namespace heddle::gpu {
namespace {

constexpr int64_t kWarp = 32;
// Registers that a thread of a usual kernel has, and of one that keeps no elements, and threads that may have
// all that a thread can.
constexpr int64_t kUsualRegisters = 128, kFewRegisters = 40, kThreadsOfAllRegisters = 256;
constexpr int64_t kRoundsOfAlike =
    4;  // of kernels of which a multiprocessor runs as many blocks as alone

int64_t volume(const std::array<int64_t, 3>& v) { return v[0] * v[1] * v[2]; }

// Gives the buffers of a program to copies of it under other identities.
class Renamed {
 public:
  std::vector<Buffer> all(const std::vector<Buffer>& from) {
    std::vector<Buffer> out;
    for (const Buffer& b : from) {
      Buffer& to = fresh_[b.get()];
      if (!to) to = Buffer::make(b->name, b->dtype, b->shape, b->scope, b->windows);
      out.push_back(to);
    }
    return out;
  }

  GpuKernel kernel(const GpuKernel& k, const std::string& name) {
    GpuKernel out = k;
    out.name = name;
    out.args = all(k.args);
    out.body = statement(k.body);
    out.tail = statement(k.tail);
    if (k.tickets) out.tickets = of(k.tickets);
    for (GpuKernel& part : out.parts) part = kernel(part, part.name);
    for (GpuKernel::TensorMap& m : out.maps) m.source = of(m.source);
    return out;
  }

 private:
  const Buffer& of(const Buffer& b) const {
    const auto it = fresh_.find(b.get());
    return it == fresh_.end() ? b : it->second;
  }

  Stmt statement(const Stmt& s) const {
    return renamed_buffers(s, [&](const Buffer& b) { return of(b); });
  }

  std::unordered_map<const BufferNode*, Buffer> fresh_;
};

void add_size(std::vector<Var>& sizes, const Var& v) {
  const auto same = [&](const Var& known) { return known.same_as(v); };
  if (std::ranges::none_of(sizes, same)) sizes.push_back(v);
}

bool is_sized(const GpuKernel& k) {
  return !k.sizes.empty() ||
         std::ranges::any_of(k.grid_of, [](const Expr& e) { return e.defined(); });
}

// Kernels in place of the launches of several.
std::vector<GpuKernel> single_kernels(std::vector<GpuKernel> kernels) {
  std::vector<GpuKernel> all;
  for (GpuKernel& k : kernels) {
    if (k.parts.empty())
      all.push_back(std::move(k));
    else
      std::ranges::move(k.parts, std::back_inserter(all));
  }
  return all;
}

GpuKernel launch_of(const std::string& name, std::vector<GpuKernel> launches) {
  std::vector<GpuKernel> parts = single_kernels(std::move(launches));
  GpuKernel k;
  k.name = name;
  k.grid = {0, 1, 1};
  k.overlaps = true;
  Expr blocks{int64_t{0}};
  for (GpuKernel& part : parts) {
    HEDDLE_ICHECK(can_join(part), "kernel '" + part.name + "' cannot share a launch");
    k.grid[0] += volume(part.grid);
    blocks = blocks + blocks_of(part);
    k.block[0] = std::max(k.block[0], volume(part.block));
    k.shared_bytes = std::max(k.shared_bytes, part.shared_bytes);
    k.overlaps &= part.overlaps;
    k.args.insert(k.args.end(), part.args.begin(), part.args.end());
    k.maps.insert(k.maps.end(), part.maps.begin(), part.maps.end());
    for (const Var& v : part.sizes) add_size(k.sizes, v);
    part.name = name + "_part" + std::to_string(k.parts.size());
    k.parts.push_back(std::move(part));
  }
  blocks = simplify(blocks);
  visit(blocks, [&](const Expr& e) {
    if (e.as<VarNode>()) add_size(k.sizes, Var::from(e));
  });
  if (!as_int(blocks)) k.grid_of[0] = blocks;
  return k;
}

// Whether lanes or threads exchange values or wait for each other.
bool cooperates(const Stmt& s) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        const Sync* sync = x.as<Sync>();
        found |= x.kind() == StmtKind::TileOp || (sync && sync->sync != SyncKind::GridWait);
      },
      [&](const Expr& e) { found |= e.kind() == ExprKind::Shuffle; });
  return found;
}

// Whether each thread keeps elements in registers.
bool keeps_elements(const Stmt& s) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        const Allocate* a = x.as<Allocate>();
        found |= a && a->buffer->scope == Scope::Local;
      },
      [](const Expr&) {});
  return found;
}

// The blocks of such a launch that the GPU runs at a time.
int64_t wave(int64_t threads, int64_t shared_bytes, int64_t registers, const Gpu& gpu) {
  int64_t of_sm = std::min<int64_t>(gpu.blocks_per_sm, gpu.threads_per_sm / threads);
  of_sm = std::min(of_sm, gpu.registers_per_sm / (threads * registers));
  of_sm = std::min(of_sm, gpu.smem_per_sm / (shared_bytes + gpu.smem_reserved));
  return std::max<int64_t>(1, of_sm) * gpu.sms;
}

// Whether a kernel may write to `b`.
bool writes(const GpuKernel& k, const Buffer& b) {
  bool found = false;
  visit(
      k.body,
      [&](const Stmt& x) {
        const Store* store = x.as<Store>();
        found |= store && store->buffer == b;
        const TileOp* op = x.as<TileOp>();
        found |= op && std::ranges::any_of(op->operands,
                                           [&](const TileOperand& o) { return o.buffer == b; });
      },
      [](const Expr&) {});
  return found;
}

// Whether one of two kernels writes what the other one reads or writes.
bool depend(const GpuKernel& a, const GpuKernel& b) {
  return std::ranges::any_of(a.args, [&](const Buffer& x) {
    return std::ranges::find(b.args, x) != b.args.end() && (writes(a, x) || writes(b, x));
  });
}

void append(std::vector<Buffer>& to, std::vector<Buffer> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Whether these kernels only move elements: as one launch they take their sum at most.
bool all_move(const std::vector<GpuKernel>& kernels) {
  int64_t blocks = 0;
  for (const GpuKernel& k : kernels) {
    if (!can_join(k) || k.shared_bytes > 0 || keeps_elements(k.body)) return false;
    blocks += volume(k.grid);
  }
  return blocks <= kMostBlocks[0];
}

}  // namespace

bool can_join(const GpuKernel& k) {
  if (!k.parts.empty()) return std::ranges::all_of(k.parts, can_join);
  if (k.tail || k.cluster != 1 || k.pair != 1 || !k.body) return false;
  if (!k.maps.empty() && (is_sized(k) || k.tickets)) return false;
  if (is_sized(k)) return k.grid[1] == 1 && k.grid[2] == 1 && !cooperates(k.body);
  return volume(k.block) % kWarp == 0 || !cooperates(k.body);
}

Expr blocks_of(const GpuKernel& part) {
  return part.grid_of[0].defined() ? part.grid_of[0] : Expr(volume(part.grid));
}

bool fit_in_one_launch(const std::vector<const GpuKernel*>& launches, const Gpu& gpu,
                       int64_t rounds_of_moves) {
  std::vector<const GpuKernel*> kernels;
  for (const GpuKernel* k : launches) {
    if (!can_join(*k)) return false;
    if (k->parts.empty()) kernels.push_back(k);
    for (const GpuKernel& part : k->parts) kernels.push_back(&part);
  }
  int64_t blocks = 0, at_largest = 0, most = 0, least = INT64_MAX, shared = 0;
  bool keeps = false;
  for (const GpuKernel* k : kernels) {
    at_largest += volume(k->grid);
    blocks += range_of(blocks_of(*k), {}).min;
    most = std::max(most, volume(k->block));
    least = std::min(least, volume(k->block));
    shared = std::max(shared, k->shared_bytes);
    keeps = keeps || keeps_elements(k->body);
  }
  if (most > kThreadsOfAllRegisters && most > 2 * least) return false;
  if (kernels.empty() || !exchange_alike(kernels, gpu)) return false;
  const int64_t registers = keeps ? kUsualRegisters : kFewRegisters,
                at_once = wave(most, shared, registers, gpu);
  const bool alike = std::ranges::all_of(kernels, [&](const GpuKernel* k) {
    return wave(volume(k->block), k->shared_bytes, registers, gpu) == at_once;
  });
  const int64_t rounds = alike ? kRoundsOfAlike : keeps || shared > 0 ? 1 : rounds_of_moves;
  return blocks <= rounds * at_once && at_largest <= kMostBlocks[0];
}

void join_launches(GpuProgram& program, const Gpu& gpu) {
  std::vector<std::vector<size_t>> rounds;  // kernels that can run side by side
  const std::vector<GpuKernel>& all = program.main;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].tail || !all[i].body) return;
    size_t at = rounds.size();
    const auto waits = [&](size_t j) { return depend(all[i], all[j]); };
    while (at > 0 && std::ranges::none_of(rounds[at - 1], waits)) --at;
    if (at == rounds.size()) rounds.emplace_back();
    rounds[at].push_back(i);
  }
  if (rounds.size() == all.size()) return;
  std::vector<GpuKernel> made;
  for (const std::vector<size_t>& round : rounds) {
    std::vector<GpuKernel> here;
    std::vector<const GpuKernel*> together;
    for (const size_t i : round) {
      together.push_back(&all[i]);
      here.push_back(all[i]);
    }
    if (here.size() > 1 && (all_move(here) || fit_in_one_launch(together, gpu))) {
      const std::string name = here[0].name;
      here = {launch_of(name, std::move(here))};
    }
    std::ranges::move(here, std::back_inserter(made));
  }
  program.main = std::move(made);
}

GpuProgram join_programs(const std::string& name, std::span<const GpuProgram> parts) {
  GpuProgram out;
  out.name = name;
  std::vector<Renamed> renamed(parts.size());
  size_t launches = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const GpuProgram& p = parts[i];
    for (const Var& v : p.sizes) add_size(out.sizes, v);
    for (const int c : p.constant_args)
      out.constant_args.push_back(c + static_cast<int>(out.args.size()));
    append(out.args, renamed[i].all(p.args));
    append(out.persistent, renamed[i].all(p.persistent));
    append(out.workspace, renamed[i].all(p.workspace));
    for (const GpuKernel& k : p.prepare) {
      const std::string own = name + "_prepare" + std::to_string(out.prepare.size());
      out.prepare.push_back(renamed[i].kernel(k, own));
    }
    launches = std::max(launches, p.main.size());
  }
  for (size_t l = 0; l < launches; ++l) {
    const std::string own = launches == 1 ? name : name + "_" + std::to_string(l);
    std::vector<GpuKernel> here;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (l < parts[i].main.size()) here.push_back(renamed[i].kernel(parts[i].main[l], own));
    }
    out.main.push_back(here.size() == 1 ? std::move(here[0]) : launch_of(own, std::move(here)));
  }
  return out;
}

}  // namespace heddle::gpu
