// From a schedule to GPU kernels. Order matters where a comment says so.
#include <algorithm>
#include <map>

#include "heddle/ir/simplify.h"
#include "heddle/lower/lower.h"
#include "heddle/support/error.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/lower_to_nest.h"
#include "lower/passes.h"

namespace heddle {
namespace {

using namespace gpu;

constexpr int64_t kMaxThreads = 1024;

// The nests of the roots, each to be a kernel; temporaries between them become workspace.
void take_apart(const Stmt& s, std::vector<Stmt>* nests, std::vector<Buffer>* workspace) {
  if (!s) return;
  if (const Allocate* a = s.as<Allocate>(); a && a->buffer->scope == Scope::Global) {
    workspace->push_back(a->buffer);
    return take_apart(a->body, nests, workspace);
  }
  if (const Block* b = s.as<Block>()) {
    for (const Stmt& c : b->stmts) take_apart(c, nests, workspace);
    return;
  }
  nests->push_back(s);
}

bool any_loop(const Stmt& s, bool (*is)(LoopKind)) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        found |= f && is(f->loop);
      },
      [](const Expr&) {});
  return found;
}

// What a kernel is made of: the nest that its blocks run, and what the last of them does then.
struct Nests {
  Stmt body, tail;
};

// Of a stage that is left to the last block: its nest.
Stmt of_last_block(const Stmt& s) {
  const For* f = s.as<For>();
  return f && f->loop == LoopKind::LastBlock ? f->body : Stmt();
}

// What one thread does next to what one block does (the identity before a reduction to one value,
// the division after it) is no kernel of its own: the block does it, a barrier away. Nor is what
// the last block of the kernel before is to do.
std::vector<Nests> merged(const std::vector<Stmt>& nests) {
  std::vector<Nests> out;
  for (const Stmt& s : nests) {
    const Stmt last = of_last_block(s);
    const Stmt nest = last ? last : s;
    const bool blocks = any_loop(nest, is_block), threads = any_loop(nest, is_thread);
    if (!out.empty() && !blocks) {
      Nests& before = out.back();
      const bool many = any_loop(before.body, is_block);
      Stmt& end = many ? before.tail : before.body;
      if (many && !end && last && !any_loop(before.body, is_cluster)) {
        end = nest;
        continue;
      }
      if (end && (last || !threads || !any_loop(end, is_thread))) {
        end = make_block({end, nest});
        continue;
      }
    }
    out.push_back({nest, {}});
  }
  return out;
}

// Gives each shared buffer its place, from `offset` on; the first byte behind them. One after the
// other: only the arms of an If, of which a block runs one, may share memory.
int64_t place_shared(const Stmt& s, int64_t offset, std::vector<GpuKernel::SharedSlot>* slots) {
  if (!s) return offset;
  if (const Allocate* a = s.as<Allocate>(); a && a->buffer->scope == Scope::Shared) {
    slots->push_back({a->buffer, offset});
    offset += (a->buffer.num_elements() * a->buffer->dtype.bytes() + 15) / 16 * 16;
  }
  if (const If* i = s.as<If>()) {
    const int64_t then_end = place_shared(i->then_body, offset, slots);
    return std::max(then_end, place_shared(i->else_body, offset, slots));
  }
  map_children(
      s,
      [&](const Stmt& c) {
        offset = place_shared(c, offset, slots);
        return c;
      },
      [](const Expr& e) { return e; });
  return offset;
}

std::vector<Buffer> used_buffers(const Stmt& s, const std::vector<Buffer>& candidates) {
  std::vector<Buffer> out;
  auto note = [&](const Buffer& b) {
    if (std::find(candidates.begin(), candidates.end(), b) == candidates.end()) return;
    if (std::find(out.begin(), out.end(), b) == out.end()) out.push_back(b);
  };
  visit(
      s,
      [&](const Stmt& x) {
        if (const Store* st = x.as<Store>()) note(st->buffer);
      },
      [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) note(load->buffer);
      });
  // In the order of the candidates: stable text.
  std::vector<Buffer> sorted;
  for (const Buffer& b : candidates) {
    if (std::find(out.begin(), out.end(), b) != out.end()) sorted.push_back(b);
  }
  return sorted;
}

Stmt to_thread_form(Stmt s, const LaunchShape& shape) {
  s = distribute(s, shape);
  s = single_out_stores(s, shape);
  // Every access gets one index; (f / n)*n + f % n is f again while f is still a scalar.
  s = simplify(join_zero_fills(flatten(s)));
  s = vectorize(s);
  s = simplify(s);
  // Before barriers go in: the ring of tiles brings its own.
  s = software_pipeline(s);
  s = insert_sync(s, shape);
  return simplify(s);
}

void check_shape(const std::string& name, const LaunchShape& shape, const Stmt& body) {
  if (shape.block[0] % shape.cluster != 0 ||
      (shape.cluster > 1 && shape.block[0] / shape.cluster % 32 != 0)) {
    throw_user_error("kernel '" + name + "' shares threadIdx.x of " +
                         std::to_string(shape.block[0]) + " among clusters of " +
                         std::to_string(shape.cluster) + " blocks",
                     {}, "give each block of a cluster whole warps");
  }
  const int64_t threads = shape.threads() / shape.cluster;
  if (threads > kMaxThreads) {
    throw_user_error("kernel '" + name + "' would have " + std::to_string(threads) +
                         " threads in a block; there can be " + std::to_string(kMaxThreads),
                     {}, "bind shorter loops to threads");
  }
  visit(
      body,
      [&](const Stmt& s) {
        const Allocate* a = s.as<Allocate>();
        if (shape.cluster == 1 || !a || a->copies == 1) return;
        throw_user_error("kernel '" + name + "' of clusters keeps " + std::to_string(a->copies) +
                             " copies of '" + a->buffer->name +
                             "', and asynchronous copies do not reach the other blocks",
                         {}, "leave out multi_buffer, or the clusters");
      },
      [](const Expr&) {});
}

GpuKernel make_kernel(const std::string& name, const Nests& nests,
                      const std::vector<Buffer>& candidates) {
  GpuKernel k;
  k.name = name;
  const Stmt body = loop_partition(linear_scans(simplify(nests.body)));
  const Stmt tail = nests.tail ? loop_partition(linear_scans(simplify(nests.tail))) : Stmt();
  const LaunchShape shape = launch_shape(make_block({body, tail}));
  check_shape(name, shape, body);
  k.grid = shape.grid;
  k.block = shape.block;
  k.cluster = shape.cluster;
  k.grid[0] *= shape.cluster;
  k.block[0] /= shape.cluster;
  k.body = to_thread_form(body, shape);
  k.shared_bytes = place_shared(k.body, 0, &k.shared);
  if (tail) {
    k.tail = to_thread_form(tail, shape);
    // (A barrier away from what the body had there.)
    k.shared_bytes = std::max(k.shared_bytes, place_shared(k.tail, 0, &k.shared));
  }
  k.args = used_buffers(make_block({k.body, k.tail}), candidates);
  if (tail) {
    k.tickets = Buffer::make("tickets", u32, {Expr(1)}, Scope::Global);
    k.args.push_back(k.tickets);
  }
  return k;
}

void make_kernels(const LoweredFunction& f, const std::vector<Buffer>& args,
                  std::vector<Buffer>* workspace, std::vector<GpuKernel>* out) {
  std::vector<Stmt> roots;
  std::vector<Buffer> own;
  take_apart(f.body, &roots, &own);
  const std::vector<Nests> nests = merged(roots);
  std::vector<Buffer> candidates = args;
  candidates.insert(candidates.end(), own.begin(), own.end());
  for (const Nests& n : nests) {
    const std::string name =
        nests.size() == 1 ? f.name : f.name + "_" + std::to_string(out->size());
    out->push_back(make_kernel(name, n, candidates));
    if (out->back().tail) own.push_back(out->back().tickets);
  }
  workspace->insert(workspace->end(), own.begin(), own.end());
}

}  // namespace

GpuProgram lower_gpu(const Schedule& schedule, const std::vector<Tensor>& args,
                     const LowerOptions& options) {
  if (!schedule.target().is_cuda()) {
    throw_user_error(
        "the schedule is for '" + to_string(schedule.target()) + "', and that is no GPU", {},
        "make it for one: create_schedule({C}, Target::cuda()), or "
        "Schedule({C}, Target::cuda())");
  }
  if (options.max_unroll != 0) {
    throw_user_error("max_unroll says nothing about a GPU", {}, "leave it 0");
  }
  LoweredProgram p = lower_to_nest(schedule, args, options.name, NestPurpose::Lower);
  GpuProgram out;
  out.name = options.name;
  out.args.assign(p.main.args.begin(), p.main.args.end() - static_cast<long>(p.persistent.size()));
  out.persistent = p.persistent;
  out.constant_args = p.constant_args;
  make_kernels(p.main, p.main.args, &out.workspace, &out.main);
  if (p.prepare.body) make_kernels(p.prepare, p.prepare.args, &out.workspace, &out.prepare);
  return out;
}

}  // namespace heddle
