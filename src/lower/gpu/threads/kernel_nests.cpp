#include "lower/gpu/threads/kernel_nests.h"

#include <algorithm>

namespace heddle::gpu {
namespace {

// Collects the nests of the roots, each of which becomes a kernel. Temporaries between them become
// workspaces.
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

// The parts of a kernel: the nest that its blocks run, and the nest that the last block runs
// afterwards.
struct Nests {
  Stmt body, tail;
};

// The nest of a stage that is left to the last block; null for any other stage.
Stmt nest_of_last_block(const Stmt& s) {
  const For* f = s.as<For>();
  return f && f->loop == LoopKind::LastBlock ? f->body : Stmt();
}

// Two kinds of nests are not kernels of their own. A nest of one thread next to a nest of one block
// (the identity before a reduction to one value, the division after it) is run by that block,
// separated by a barrier. A nest for the last block becomes the tail of the kernel before it.
std::vector<Nests> merged(const std::vector<Stmt>& nests) {
  std::vector<Nests> out;
  for (const Stmt& s : nests) {
    const Stmt last = nest_of_last_block(s);
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

std::vector<GpuKernel> kernels_of(const LoweredFunction& f, std::vector<Buffer>* workspace) {
  std::vector<Stmt> roots;
  std::vector<Buffer> temporaries;
  take_apart(f.body, &roots, &temporaries);
  const std::vector<Nests> nests = merged(roots);
  std::vector<Buffer> candidates = f.args;
  candidates.insert(candidates.end(), temporaries.begin(), temporaries.end());
  std::vector<GpuKernel> out;
  for (const Nests& n : nests) {
    GpuKernel k;
    k.name = nests.size() == 1 ? f.name : f.name + "_" + std::to_string(out.size());
    k.body = n.body;
    k.tail = n.tail;
    k.args = used_buffers(k.body, k.tail, candidates);
    if (k.tail) {
      k.tickets = Buffer::make("tickets", u32, {Expr(1)}, Scope::Global);
      temporaries.push_back(k.tickets);
    }
    out.push_back(std::move(k));
  }
  workspace->insert(workspace->end(), temporaries.begin(), temporaries.end());
  return out;
}

}  // namespace

std::vector<Buffer> used_buffers(const Stmt& body, const Stmt& tail,
                                 const std::vector<Buffer>& candidates) {
  std::vector<Buffer> seen;
  auto note = [&](const Buffer& b) {
    if (std::find(seen.begin(), seen.end(), b) == seen.end()) seen.push_back(b);
  };
  visit(
      make_block({body, tail}),
      [&](const Stmt& x) {
        if (const Store* st = x.as<Store>()) note(st->buffer);
        if (const TileOp* op = x.as<TileOp>()) {
          for (const TileOperand& o : op->operands) note(o.buffer);
        }
      },
      [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) note(load->buffer);
      });
  // The order of the candidates is kept, so that the generated text is stable.
  std::vector<Buffer> out;
  for (const Buffer& b : candidates) {
    if (std::find(seen.begin(), seen.end(), b) != seen.end()) out.push_back(b);
  }
  return out;
}

GpuProgram split_into_kernels(const LoweredProgram& nests, const std::string& name) {
  GpuProgram out;
  out.name = name;
  const auto& args = nests.main.args;
  out.args.assign(args.begin(), args.end() - static_cast<long>(nests.persistent.size()));
  out.persistent = nests.persistent;
  out.constant_args = nests.constant_args;
  out.sizes = nests.main.sizes;
  out.main = kernels_of(nests.main, &out.workspace);
  if (nests.prepare.body) out.prepare = kernels_of(nests.prepare, &out.workspace);
  return out;
}

}  // namespace heddle::gpu
