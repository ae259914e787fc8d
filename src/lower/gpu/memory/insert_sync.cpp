// A barrier goes where a phase touches memory that an earlier phase wrote, or writes what it read,
// with no barrier between. Loops run twice through the analysis: what one iteration leaves behind
// is what the next one meets.
#include <algorithm>
#include <set>

#include "heddle/support/error.h"
#include "ir/combined_store.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

using Buffers = std::set<const BufferNode*>;

struct Touched {
  Buffers read, written;
  void add(const Touched& o) {
    read.insert(o.read.begin(), o.read.end());
    written.insert(o.written.begin(), o.written.end());
  }
  void clear() {
    read.clear();
    written.clear();
  }
};

bool meet(const Buffers& a, const Buffers& b) {
  for (const BufferNode* x : a) {
    if (b.count(x)) return true;
  }
  return false;
}

bool conflict(const Touched& before, const Touched& now) {
  return meet(before.written, now.read) || meet(before.written, now.written) ||
         meet(before.read, now.written);
}

class Inserter {
 public:
  explicit Inserter(const LaunchShape& shape) : shape_(shape) {}

  Stmt run(const Stmt& s) {
    // Buffers that this kernel only reads or only writes need no order. Asynchronous copies bring
    // their own barriers, and data whose arrival is waited for needs none.
    Touched all;
    touch(s, &all, true);
    for (const BufferNode* b : all.read) {
      if (all.written.count(b)) shared_.insert(b);
    }
    visit(
        s,
        [&](const Stmt& x) {
          if (const Allocate* a = x.as<Allocate>(); a && a->copies > 1)
            shared_.erase(a->buffer.get());
          if (const Store* st = x.as<Store>();
              st && (st->hint == StoreHint::Async || has(st->hint, kCombined)))
            shared_.erase(st->buffer.get());
          const TileOp* op = x.as<TileOp>();
          if (op && op->as<tile::BulkStore>()) shared_.erase(op->operands[0].buffer.get());
          if (op && op->as<tile::LastArrival>()) shared_.erase(op->operands[3].buffer.get());
        },
        [](const Expr&) {});
    if (shape_.threads() == 1 || shared_.empty()) return s;
    Touched state;
    const Stmt r = walk(s, &state);
    // A block of a cluster must not exit while another one may still write to its memory.
    const bool pending = std::any_of(state.written.begin(), state.written.end(),
                                     [](const auto* b) { return b->scope == Scope::Shared; });
    return shape_.cluster > 1 && pending ? make_block({r, make_sync(SyncKind::Block)}) : r;
  }

 private:
  /// Notes what an expression reads.
  void touch(const Expr& e, Touched* t) const {
    visit(e, [&](const Expr& x) {
      const Load* load = x.as<Load>();
      if (load && shared_.count(load->buffer.get())) t->read.insert(load->buffer.get());
    });
  }
  void touch(const Stmt& s, Touched* t, bool any = false) const {
    auto counts = [&](const Buffer& b) {
      return any ? b->scope != Scope::Local : shared_.count(b.get()) > 0;
    };
    auto loads = [&](const Expr& e) {
      if (const Load* load = e.as<Load>(); load && counts(load->buffer))
        t->read.insert(load->buffer.get());
    };
    visit(
        s,
        [&](const Stmt& x) {
          if (const Store* st = x.as<Store>(); st && counts(st->buffer))
            t->written.insert(st->buffer.get());
          if (const TileOp* op = x.as<TileOp>()) {
            for (const TileOperand& o : op->operands) {
              if (counts(o.buffer)) t->read.insert(o.buffer.get());
            }
          }
        },
        loads);
  }

  // Whether a barrier inside `s` may be needed: more than one statement that touches memory.
  static bool is_leaf(const Stmt& s) {
    return s.kind() == StmtKind::Store || s.kind() == StmtKind::Prefetch ||
           s.kind() == StmtKind::Sync || s.kind() == StmtKind::TileOp;
  }

  // `s` with barriers; `state` is what was touched since the last one, before and after.
  Stmt walk(const Stmt& s, Touched* state) {
    if (!s) return s;
    if (const Sync* y = s.as<Sync>()) {
      // Where warp groups have roles, none touches what another one of them wrote.
      if (y->sync == SyncKind::Block || y->sync == SyncKind::WarpGroup) state->clear();
      return s;
    }
    if (const Block* b = s.as<Block>()) {
      std::vector<Stmt> out;
      for (const Stmt& c : b->stmts) out.push_back(walk(c, state));
      return make_block(std::move(out));
    }
    Touched here;
    touch(s, &here);
    if (here.read.empty() && here.written.empty() && !has_sync(s)) return s;
    if (!phased(s)) {
      Stmt r = s;
      if (conflict(*state, here)) {
        r = make_block({make_sync(SyncKind::Block), s});
        state->clear();
      }
      state->add(here);
      return r;
    }
    if (const For* f = s.as<For>()) {
      if (is_thread(f->loop) && !is_full(*f)) return walk(widened(*f), state);
      Stmt body;
      if (is_thread(f->loop) || is_block(f->loop)) {
        body = walk(f->body, state);
      } else {
        Touched once = *state;
        walk(f->body, &once);
        Touched next = *state;
        next.add(once);
        body = walk(f->body, &next);
        *state = next;
      }
      return make_for(f->var, f->extent, f->loop, body);
    }
    if (const If* i = s.as<If>()) {
      Touched other = *state;
      Stmt t = walk(i->then_body, state), e = walk(i->else_body, &other);
      state->add(other);
      return make_if(i->condition, t, e);
    }
    if (const Let* l = s.as<Let>()) {
      Touched value;
      touch(l->value, &value);
      const bool waits = conflict(*state, value);
      if (waits) state->clear();
      state->add(value);
      const Stmt r = make_let(l->var, l->value, walk(l->body, state));
      return waits ? make_block({make_sync(SyncKind::Block), r}) : r;
    }
    return map_children(
        s, [&](const Stmt& c) { return walk(c, state); }, [](const Expr& e) { return e; });
  }

  static bool has_sync(const Stmt& s) {
    bool found = false;
    visit(
        s,
        [&](const Stmt& x) {
          const Sync* y = x.as<Sync>();
          found |= y && !is_of_group(y->sync);
        },
        [](const Expr&) {});
    return found;
  }
  // Not all threads of the block reach these.
  static bool is_of_group(SyncKind k) {
    return k == SyncKind::WarpGroup || k == SyncKind::StoreFence || k == SyncKind::StoreCommit ||
           k == SyncKind::StoreWait;
  }

  // Whether the statement has phases inside that might need a barrier between them: a sequence of
  // thread loops, or a loop around one that reads what it wrote.
  bool phased(const Stmt& s) const {
    if (is_leaf(s)) return false;
    if (has_sync(s)) return true;
    Touched here;
    touch(s, &here);
    if (here.written.empty()) return false;
    return sequence(s, meet(here.read, here.written), false);
  }

  static bool sequence(const Stmt& s, bool reads_back, bool in_loop) {
    if (!s) return false;
    bool found = false;
    const For* f = s.as<For>();
    if (s.kind() == StmtKind::Block) found = has_thread_loop(s);
    if (f && is_thread(f->loop)) {
      if (in_loop && reads_back) return true;
      in_loop = false;
    } else if (f) {
      in_loop = true;
    }
    map_children(
        s,
        [&](const Stmt& c) {
          found = found || sequence(c, reads_back, in_loop);
          return c;
        },
        [](const Expr& e) { return e; });
    return found;
  }

  static bool has_thread_loop(const Stmt& s) {
    bool found = false;
    visit(
        s,
        [&](const Stmt& x) {
          const For* f = x.as<For>();
          found |= f && is_thread(f->loop);
        },
        [](const Expr&) {});
    return found;
  }

  bool is_full(const For& f) const {
    const int64_t* n = as_int(f.extent);
    return n && *n == shape_.block[static_cast<size_t>(grid_dim(f.loop))];
  }

  // Makes the loop as long as the block, so that all threads reach the barriers in it. Statements
  // between barriers run only in threads below the original extent.
  Stmt widened(const For& f) const {
    const int64_t n = shape_.block[static_cast<size_t>(grid_dim(f.loop))];
    return make_for(f.var, Expr(n), f.loop, guarded(f.body, f.var.expr() < f.extent));
  }
  Stmt guarded(const Stmt& s, const Expr& condition) const {
    if (!s || s.kind() == StmtKind::Sync) return s;
    if (s.kind() != StmtKind::Block && s.kind() != StmtKind::Allocate && !phased(s))
      return make_if(condition, s);
    return map_children(
        s, [&](const Stmt& c) { return guarded(c, condition); }, [](const Expr& e) { return e; });
  }

  const LaunchShape& shape_;
  Buffers shared_;
};

// Whether all blocks of the cluster must have begun before `s`: a store to shared memory goes to
// the memory of each block.
bool reaches_others(const Stmt& s) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        const Store* st = x.as<Store>();
        found |= x.kind() == StmtKind::Sync || (st && st->buffer->scope == Scope::Shared);
      },
      [](const Expr&) {});
  return found;
}

// Inserts the wait once, at the latest point that all threads reach together.
Stmt with_start(const Stmt& s, const LaunchShape& shape) {
  if (const Block* b = s.as<Block>()) {
    std::vector<Stmt> out = b->stmts;
    const auto first = std::find_if(out.begin(), out.end(), reaches_others);
    *first = with_start(*first, shape);
    return make_block(std::move(out));
  }
  const For* f = s.as<For>();
  const int64_t* n = f ? as_int(f->extent) : nullptr;
  const bool by_all =
      f && (is_block(f->loop) ||
            (is_thread(f->loop) && n && *n == shape.block[static_cast<size_t>(grid_dim(f->loop))]));
  if (by_all || s.kind() == StmtKind::Allocate) {
    return map_children(
        s, [&](const Stmt& c) { return with_start(c, shape); }, [](const Expr& e) { return e; });
  }
  return make_block({make_sync(SyncKind::Started), s});
}

}  // namespace

Stmt insert_sync(const Stmt& s, const LaunchShape& shape) {
  const Stmt r = Inserter(shape).run(s);
  return shape.cluster > 1 && reaches_others(r) ? with_start(r, shape) : r;
}

}  // namespace heddle::gpu
