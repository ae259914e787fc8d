#include <vector>

#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

/// An index as a sum of an expression and a constant. Simplified sums have their constant last.
struct Place {
  Expr base;  ///< undefined where the index is a constant
  int64_t offset = 0;
};

Place place_of(const Expr& index) {
  if (const int64_t* n = as_int(index)) return {Expr(), *n};
  const Binary* sum = index.as<Binary>();
  if (sum == nullptr || (sum->op != BinaryOp::Add && sum->op != BinaryOp::Sub)) return {index, 0};
  const int64_t* n = as_int(sum->b);
  if (n == nullptr) return {index, 0};
  return {sum->a, sum->op == BinaryOp::Add ? *n : -*n};
}

class Thinner {
 public:
  explicit Thinner(int64_t bytes) : bytes_(bytes) {}

  Stmt run(const Stmt& s) {
    if (!s) return s;
    if (const Prefetch* p = s.as<Prefetch>()) return is_fetched(*p) ? make_block({}) : s;
    // Statements of a block follow each other. Any other statement may run often or not at all.
    if (s.kind() == StmtKind::Block || s.kind() == StmtKind::Store) {
      return map_children(
          s, [&](const Stmt& c) { return run(c); }, [](const Expr& e) { return e; });
    }
    std::vector<Fetched> outside;
    std::swap(outside, fetched_);
    Stmt r = map_children(
        s,
        [&](const Stmt& c) {
          fetched_.clear();
          return run(c);
        },
        [](const Expr& e) { return e; });
    fetched_ = std::move(outside);
    return r;
  }

 private:
  struct Fetched {
    const BufferNode* buffer = nullptr;
    Place place;
  };

  bool is_fetched(const Prefetch& p) {
    if (p.indices.size() != 1) return false;
    const Place here = place_of(p.indices[0]);
    const int64_t bytes = p.buffer->dtype.bytes();
    for (const Fetched& f : fetched_) {
      if (f.buffer != p.buffer.get() || f.place.base.defined() != here.base.defined()) continue;
      if (here.base.defined() && !equal(f.place.base, here.base)) continue;
      const int64_t distance = (here.offset - f.place.offset) * bytes;
      if (distance >= 0 && distance < bytes_) return true;
    }
    fetched_.push_back({p.buffer.get(), here});
    return false;
  }

  int64_t bytes_;
  std::vector<Fetched> fetched_;  // by the statements before this one
};

}  // namespace

Stmt thin_prefetches(const Stmt& s, int64_t bytes) { return Thinner(bytes).run(s); }

}  // namespace heddle::lowering
