// rewrite: shared c { shared b { shared a { fill a  b from a  c from b  use c } } }
//      --> shared c { shared b { fill c  b from c  c from b  use c } }
// A buffer takes the place of one around it that is touched before or after it alone. It runs before barriers are
// inserted, so that these order what shares memory.
#include <algorithm>
#include <map>
#include <vector>

#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/memory/renamed_buffers.h"

namespace heddle::gpu {
namespace {

// Below this a block asks for little, and as many blocks are resident without it.
constexpr int64_t kLittle = 32 << 10;

/// When the buffers of a kernel are touched, in steps of a walk through it. A loop is one step for what is allocated
/// outside of it: it comes back, or its threads are not all at the same place.
class Lifetimes {
 public:
  struct Life {
    int declared = 0, first = 0, last = 0;
    bool pinned = false;  ///< matrix instructions and asynchronous copies have memory of their own
  };

  explicit Lifetimes(const Stmt& s) { walk(s); }

  int64_t bytes() const { return bytes_; }
  const Life& of(const Buffer& b) const { return lives_.at(b.get()); }

 private:
  void walk(const Stmt& s) {
    if (!s) return;
    ++now_;
    if (const Allocate* a = s.as<Allocate>(); a && a->buffer->scope == Scope::Shared) {
      lives_[a->buffer.get()] = {now_, now_, now_, a->copies > 1};
      bytes_ += a->buffer.num_elements() * a->buffer->dtype.bytes();
    }
    if (const Store* st = s.as<Store>()) touch(st->buffer, has(st->hint, StoreHint::Async));
    if (const TileOp* op = s.as<TileOp>()) {
      for (const TileOperand& o : op->operands) touch(o.buffer, true);
    }
    const int begin = now_;
    map_children(
        s,
        [&](const Stmt& c) {
          walk(c);
          return c;
        },
        [&](const Expr& e) {
          visit(e, [&](const Expr& x) {
            if (const Load* load = x.as<Load>()) touch(load->buffer, false);
          });
          return e;
        });
    const For* f = s.as<For>();
    if (!f || is_block(f->loop)) return;
    for (auto& [buffer, life] : lives_) {
      if (life.declared >= begin || life.last < begin) continue;
      life.first = std::min(life.first, begin);
      life.last = now_;
    }
  }

  void touch(const Buffer& b, bool pinned) {
    const auto found = lives_.find(b.get());
    if (found == lives_.end()) return;
    Life& life = found->second;
    if (life.first == life.declared) life.first = now_;
    life.last = now_;
    life.pinned |= pinned;
  }

  std::map<const BufferNode*, Life> lives_;
  int64_t bytes_ = 0;
  int now_ = 0;
};

class Reuse {
 public:
  explicit Reuse(const Lifetimes& lifetimes) : lifetimes_(lifetimes) {}

  Stmt run(const Stmt& s) {
    return renamed_buffers(placed(s), [&](const Buffer& b) {
      const auto found = taken_.find(b.get());
      return found == taken_.end() ? b : found->second;
    });
  }

 private:
  using Life = Lifetimes::Life;
  struct Place {
    Buffer buffer;
    std::vector<Life> lives;
  };

  /// `s` without the allocations of buffers that take the place of others.
  Stmt placed(const Stmt& s) {
    if (!s) return s;
    const Allocate* a = s.as<Allocate>();
    if (a && a->buffer->scope == Scope::Shared) return allocation(*a);
    return map_children(
        s, [&](const Stmt& c) { return placed(c); }, [](const Expr& e) { return e; });
  }

  Stmt allocation(const Allocate& a) {
    const Life& life = lifetimes_.of(a.buffer);
    if (Place* place = free_place(a.buffer, life)) {
      place->lives.push_back(life);
      taken_[a.buffer.get()] = place->buffer;
      return placed(a.body);
    }
    places_.push_back({a.buffer, {life}});
    const Stmt body = placed(a.body);
    places_.pop_back();
    return make_allocate(a.buffer, body, a.copies);
  }

  static bool is_free(const Place& p, const Life& during) {
    return std::all_of(p.lives.begin(), p.lives.end(), [&](const Life& life) {
      return !life.pinned && (life.last < during.first || during.last < life.first);
    });
  }

  /// The smallest place around an allocation that is free while it lives, and has room.
  Place* free_place(const Buffer& b, const Life& life) {
    if (life.pinned) return nullptr;
    Place* best = nullptr;
    for (Place& p : places_) {
      if (!is_free(p, life) || p.buffer->dtype != b->dtype ||
          p.buffer.num_elements() < b.num_elements())
        continue;
      if (!best || p.buffer.num_elements() < best->buffer.num_elements()) best = &p;
    }
    return best;
  }

  const Lifetimes& lifetimes_;
  std::vector<Place> places_;
  std::map<const BufferNode*, Buffer> taken_;
};

}  // namespace

Stmt reuse_shared(const Stmt& s) {
  if (!s) return s;
  const Lifetimes lifetimes(s);
  return lifetimes.bytes() <= kLittle ? s : Reuse(lifetimes).run(s);
}

}  // namespace heddle::gpu
