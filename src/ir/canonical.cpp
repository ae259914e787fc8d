#include "ir/canonical.h"

#include <bit>
#include <unordered_map>

#include "support/hashing/hash.h"

namespace heddle {
namespace {

// Two independent hashes of the same values.
struct Digest {
  uint64_t high = 0x243f6a8885a308d3, low = 0x13198a2e03707344;

  void add(uint64_t value) {
    high = hash_combine(high, value);
    low = mix64(std::rotl(low, 23) * 0x9fb21c651e98df25 + value);
  }
  void add(const Digest& d) {
    add(d.high);
    add(d.low);
  }
};

uint64_t bits(DataType t) {
  return static_cast<uint64_t>(t.code) << 48 | static_cast<uint64_t>(t.bits) << 32 |
         static_cast<uint64_t>(t.lanes);
}

// Variables and buffers are identified by the order of their first appearance. A graph of
// expressions is hashed like the tree that it stands for, but each node is visited once.
class Canonicalizer {
 public:
  CanonicalForm run(const Stmt& s) {
    stmt(s);
    form_.key = {all_.high, all_.low};
    return std::move(form_);
  }

 private:
  void stmt(const Stmt& s) {
    if (!s) return all_.add(~uint64_t{0});
    all_.add(static_cast<uint64_t>(s.kind()));
    switch (s.kind()) {
      case StmtKind::For: {
        auto* loop = s.as<For>();
        all_.add(static_cast<uint64_t>(loop->loop.number()));
        all_.add(expr(loop->extent));
        define(loop->var);
        return stmt(loop->body);
      }
      case StmtKind::Store: {
        auto* store = s.as<Store>();
        all_.add(static_cast<uint64_t>(store->hint));
        access(all_, store->buffer, store->indices);
        return all_.add(expr(store->value));
      }
      case StmtKind::Allocate: {
        auto* allocate = s.as<Allocate>();
        all_.add(static_cast<uint64_t>(allocate->copies));
        describe(allocate->buffer);
        return stmt(allocate->body);
      }
      case StmtKind::If: {
        auto* branch = s.as<If>();
        all_.add(expr(branch->condition));
        stmt(branch->then_body);
        return stmt(branch->else_body);
      }
      case StmtKind::Block:
        all_.add(s.as<Block>()->stmts.size());
        for (const Stmt& child : s.as<Block>()->stmts) stmt(child);
        return;
      case StmtKind::Let: {
        auto* let = s.as<Let>();
        all_.add(expr(let->value));
        define(let->var);
        return stmt(let->body);
      }
      case StmtKind::Prefetch:
        return access(all_, s.as<Prefetch>()->buffer, s.as<Prefetch>()->indices);
      case StmtKind::Sync:
      case StmtKind::TileOp: form_.closed = false;
    }
  }

  void define(const Var& v) {
    all_.add(bits(v->dtype));
    all_.add(vars_.try_emplace(v.get(), vars_.size()).first->second);
  }

  void size(const VarNode* v) {
    if (vars_.contains(v)) return;
    form_.sizes.push_back(Var::from(Expr(v)));
    define(form_.sizes.back());
    all_.add(static_cast<uint64_t>(v->size->lo));
    all_.add(static_cast<uint64_t>(v->size->hi));
  }

  void describe(const Buffer& b) {
    all_.add(buffers_.try_emplace(b.get(), buffers_.size()).first->second);
    all_.add(bits(b->dtype));
    all_.add(static_cast<uint64_t>(b->scope));
    all_.add(b->shape.size());
    for (const Expr& extent : b->shape) all_.add(expr(extent));
  }

  void access(Digest& to, const Buffer& b, const std::vector<Expr>& indices) {
    if (!buffers_.contains(b.get())) {
      form_.closed &= b->scope != Scope::Local;
      form_.buffers.push_back(b);
      describe(b);
    }
    to.add(buffers_[b.get()]);
    to.add(indices.size());
    for (const Expr& i : indices) to.add(expr(i));
  }

  Digest expr(const Expr& e) {
    const bool remember = e->shared() && e.kind() != ExprKind::Var;
    if (remember) {
      if (auto at = done_.find(e.get()); at != done_.end()) return at->second;
    }
    Digest d;
    d.add(static_cast<uint64_t>(e.kind()));
    d.add(bits(e.dtype()));
    switch (e.kind()) {
      case ExprKind::IntImm: d.add(static_cast<uint64_t>(e.as<IntImm>()->value)); break;
      case ExprKind::FloatImm: d.add(std::bit_cast<uint64_t>(e.as<FloatImm>()->value)); break;
      case ExprKind::Var: {
        const VarNode* v = e.as<VarNode>();
        if (v->size) size(v);
        const auto at = vars_.find(v);
        form_.closed &= at != vars_.end();
        if (at != vars_.end()) d.add(at->second);
        break;
      }
      case ExprKind::Unary: d.add(static_cast<uint64_t>(e.as<Unary>()->op)); break;
      case ExprKind::Binary: d.add(static_cast<uint64_t>(e.as<Binary>()->op)); break;
      case ExprKind::Load: access(d, e.as<Load>()->buffer, e.as<Load>()->indices); break;
      case ExprKind::Reduce:
      case ExprKind::Shuffle: form_.closed = false; break;
      default: break;
    }
    if (e.kind() != ExprKind::Load)
      for_each_child(e, [&](const Expr& child) { d.add(expr(child)); });
    if (remember) done_.emplace(e.get(), d);
    return d;
  }

  CanonicalForm form_;
  Digest all_;
  std::unordered_map<const VarNode*, uint64_t> vars_;
  std::unordered_map<const BufferNode*, uint64_t> buffers_;
  std::unordered_map<const ExprNode*, Digest> done_;
};

}  // namespace

CanonicalForm canonical_form(const Stmt& s) { return Canonicalizer().run(s); }

}  // namespace heddle
