#include "cost_model/program_walk.h"

#include <algorithm>
#include <cmath>

#include "ir/op_class.h"

namespace heddle::cost_model {

double Access::stride_at(int depth) const {
  double least = 0;
  for (const Digit& d : form) {
    if (d.depth != depth) continue;
    // f / 8 and f % 8 both move with f. The remainder moves from one iteration to the next.
    if (least == 0 || d.divisor == 1) least = std::abs(d.stride);
  }
  return least;
}

namespace {

/// Expressions are graphs whose trees may be very large. Beyond this number of visits the rest of a
/// body is ignored.
constexpr int kMostVisits = 4096;

class Walker {
 public:
  explicit Walker(const LoweredFunction& f) {
    out_.statements.reserve(16);
    out_.loops.reserve(32);
    for (const Buffer& b : f.args) slot_of(b.get());
    if (f.body) walk(f.body);
  }
  Program take() { return std::move(out_); }

 private:
  void walk(const Stmt& s) {
    switch (s.kind()) {
      case StmtKind::For: return walk_for(*s.as<For>());
      case StmtKind::Store: return walk_store(*s.as<Store>());
      case StmtKind::If: return walk_if(*s.as<If>());
      case StmtKind::Block: {
        size_t first = out_.statements.size();
        std::swap(first, block_begin_);
        for (const Stmt& x : s.as<Block>()->stmts) walk(x);
        block_begin_ = first;
        return;
      }
      case StmtKind::Let: {
        const Let* l = s.as<Let>();
        nest_.lets.emplace_back(l->var.get(), l->value);
        walk(l->body);
        nest_.lets.pop_back();
        return;
      }
      case StmtKind::Allocate: {
        const Allocate* a = s.as<Allocate>();
        BufferUse& use = out_.buffers[slot_of(a->buffer.get())];
        use.allocated = true;
        use.copies = a->copies;
        out_.allocations += 1;
        if (a->buffer->scope == Scope::Global) {
          out_.global_bytes += use.bytes;
        } else {
          out_.largest_local_bytes = std::max(out_.largest_local_bytes, use.bytes);
        }
        return walk(a->body);
      }
      case StmtKind::Prefetch: {
        double n = weight_;
        for (const OpenLoop& l : nest_.loops) n *= l.extent;
        out_.prefetches += n;
        return;
      }
      case StmtKind::Sync:
      case StmtKind::TileOp: return;
    }
  }

  void walk_for(const For& f) {
    auto [mean, most] = nest_.extent(f.extent);
    if (most <= 0 || mean <= 0) return;
    LoopNode node;
    node.parent = nest_.loops.empty() ? -1 : nest_.loops.back().node;
    node.depth = static_cast<int>(nest_.loops.size());
    // Software-pipelined rows have the same loads and stores as serial rows.
    const LoopKind kind = f.loop == LoopKind::SoftwarePipelined ? LoopKind::Serial : f.loop;
    node.kind = kind;
    out_.loops.push_back(node);
    nest_.loops.push_back({f.var.get(), mean, most, kind, static_cast<int>(out_.loops.size()) - 1});
    size_t begin = out_.statements.size();
    std::swap(begin, block_begin_);
    walk(f.body);
    block_begin_ = begin;
    nest_.loops.pop_back();
  }

  void walk_if(const If& s) {
    int cut = -1;
    double p = nest_.share(s.condition, &cut);
    size_t begin = out_.statements.size();
    if (s.then_body && p > 0) walk_share(s.then_body, p, cut);
    size_t middle = out_.statements.size();
    if (s.else_body && p < 1) walk_share(s.else_body, 1 - p, cut);
    // The main part and the tail of a loop are two copies of the same statements.
    size_t n = middle - begin;
    if (n == 0 || out_.statements.size() - middle != n) return;
    for (size_t i = 0; i < n; ++i) {
      const Statement &x = out_.statements[begin + i], &y = out_.statements[middle + i];
      if (!(x.ops == y.ops) || x.accesses.size() != y.accesses.size()) return;
    }
    for (size_t i = 0; i < n; ++i) {
      if (out_.statements[middle + i].copy_of < 0)
        out_.statements[middle + i].copy_of = static_cast<int>(begin + i);
    }
  }

  void walk_share(const Stmt& body, double p, int cut) {
    size_t begin = out_.statements.size();
    std::swap(begin, block_begin_);
    if (cut >= 0) {
      double whole = nest_.loops[cut].extent;
      nest_.loops[cut].extent *= p;
      walk(body);
      nest_.loops[cut].extent = whole;
    } else {
      double whole = weight_;
      weight_ *= p;
      walk(body);
      weight_ = whole;
    }
    block_begin_ = begin;
  }

  void walk_store(const Store& s) {
    Statement& x = scratch_;
    x = {};
    x.accesses = std::move(spare_);
    x.accesses.clear();
    x.weight = weight_;
    x.nontemporal = has(s.hint, StoreHint::NonTemporal);
    x.lanes = s.value.dtype().lanes;
    for (const Expr& i : s.indices) x.lanes = std::max<int>(x.lanes, i.dtype().lanes);
    current_ = &x;
    seen_.clear();
    visits_ = 0;
    add_access(s.buffer.get(), s.indices, 1, true);
    Expr value = s.value;
    if (const VarNode* v = value.as<VarNode>()) value = bound(v, value);
    x.is_copy = moves_only(value);
    x.is_constant = is_const(value) || value.kind() == ExprKind::FloatImm ||
                    (value.kind() == ExprKind::Broadcast && is_const(value.as<Broadcast>()->value));
    count(value, 1);
    current_ = nullptr;
    // Looks for a copy of the statement that unrolling made.
    for (size_t i = out_.statements.size(); i-- > block_begin_;) {
      if (join(&out_.statements[i], x)) {
        spare_ = std::move(x.accesses);
        return;
      }
    }
    x.loops = nest_.loops;
    int self = static_cast<int>(out_.statements.size());
    BufferUse& use = out_.buffers[x.accesses[0].slot];
    if (use.first_writer < 0) use.first_writer = self;
    out_.statements.push_back(std::move(x));
  }

  bool join(Statement* into, const Statement& x) const {
    if (into->accesses.size() != x.accesses.size() || into->loops.size() != nest_.loops.size() ||
        into->lanes != x.lanes || into->weight != x.weight || !(into->ops == x.ops)) {
      return false;
    }
    if (!into->loops.empty() && into->loops.back().node != nest_.loops.back().node) return false;
    for (size_t i = 0; i < x.accesses.size(); ++i) {
      if (!alike(into->accesses[i], x.accesses[i])) return false;
    }
    for (size_t i = 0; i < x.accesses.size(); ++i) {
      Access& a = into->accesses[i];
      if (a.places.empty()) a.places.push_back(a.form.constant);
      const Access& b = x.accesses[i];
      if (b.places.empty()) a.places.push_back(b.form.constant);
      a.places.insert(a.places.end(), b.places.begin(), b.places.end());
    }
    into->copies += 1;
    return true;
  }

  static bool alike(const Access& a, const Access& b) {
    return a.slot == b.slot && a.weight == b.weight &&
           std::equal(a.form.begin(), a.form.end(), b.form.begin(), b.form.end());
  }

  // ---- values ----
  const Expr& bound(const VarNode* v, const Expr& otherwise) const {
    for (const auto& [var, value] : nest_.lets) {
      if (var == v) return value;
    }
    return otherwise;
  }

  static bool moves_only(const Expr& e) {
    if (e.kind() == ExprKind::Load) return true;
    if (const Cast* c = e.as<Cast>()) return moves_only(c->value);
    if (const Select* s = e.as<Select>()) {
      return (moves_only(s->on_true) || is_const(s->on_true)) &&
             (moves_only(s->on_false) || is_const(s->on_false));
    }
    return false;
  }

  bool first_visit(const Expr& e) {
    if (!e->shared()) return true;
    for (const ExprNode* n : seen_) {
      if (n == e.get()) return false;
    }
    seen_.push_back(e.get());
    return true;
  }

  void count(const Expr& e, double w) {
    if (w <= 0 || ++visits_ > kMostVisits) return;
    OpCounts& ops = current_->ops;
    switch (e.kind()) {
      case ExprKind::IntImm:
      case ExprKind::FloatImm: return;
      case ExprKind::Var: {
        const Expr& value = bound(e.as<VarNode>(), e);
        if (!value.same_as(e)) count(value, w);
        return;
      }
      default: break;
    }
    if (!first_visit(e)) return;
    switch (e.kind()) {
      case ExprKind::Cast: ops.cast += w; return count(e.as<Cast>()->value, w);
      case ExprKind::Broadcast: return count(e.as<Broadcast>()->value, w);
      case ExprKind::Ramp: return;
      case ExprKind::Load:
        return add_access(e.as<Load>()->buffer.get(), e.as<Load>()->indices, w, false);
      case ExprKind::Unary: count_unary(*e.as<Unary>(), w); return count(e.as<Unary>()->a, w);
      case ExprKind::Select: {
        const Select* s = e.as<Select>();
        ops.select += w;
        // The share of a condition on indices is known here. A condition on data is decided for
        // each lane.
        int ignored = -1;
        if (has_load(s->condition)) {
          count(s->condition, w);
          count(s->on_true, w);
          return count(s->on_false, w);
        }
        double p = nest_.share(s->condition, &ignored);
        count(s->on_true, w * p);
        return count(s->on_false, w * (1 - p));
      }
      case ExprKind::Binary: return count_binary(*e.as<Binary>(), w);
      default: for_each_child(e, [&](const Expr& c) { count(c, w); });
    }
  }

  static bool has_load(const Expr& e) {
    return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
  }

  void count_unary(const Unary& u, double w) { add(op_class(u.op), u.dtype.is_float(), w); }

  // Integer minima have no units of their own and count as additions.
  void add(OpClass c, bool real, double w) {
    OpCounts& ops = current_->ops;
    switch (c) {
      case OpClass::Logic: ops.logic += w; return;
      case OpClass::Add: (real ? ops.add : ops.int_add) += w; return;
      case OpClass::Multiply: (real ? ops.mul : ops.int_mul) += w; return;
      case OpClass::MinMax: (real ? ops.minmax : ops.int_add) += w; return;
      case OpClass::Divide: (real ? ops.div : ops.int_div) += w; return;
      case OpClass::Root: ops.div += w; return;
      case OpClass::Transcendental: ops.special += w; return;
    }
  }

  void count_binary(const Binary& b, double w) {
    const bool real = b.a.dtype().is_float();
    if (real && (b.op == BinaryOp::Add || b.op == BinaryOp::Sub)) {
      // x*y + z is one multiply-add.
      for (const Expr* side : {&b.a, &b.b}) {
        const Binary* m = side->as<Binary>();
        if (!m || m->op != BinaryOp::Mul) continue;
        current_->ops.mad += w;
        count(m->a, w);
        count(m->b, w);
        return count(side == &b.a ? b.b : b.a, w);
      }
    }
    add(op_class(b.op), real, w);
    count(b.a, w);
    count(b.b, w);
  }

  // ---- accesses ----
  int slot_of(const BufferNode* b) {
    for (size_t i = out_.buffers.size(); i-- > 0;) {
      if (out_.buffers[i].buffer == b) return static_cast<int>(i);
    }
    BufferUse use;
    use.buffer = b;
    for (const Expr& e : b->shape) {
      const int64_t* n = as_int(e);
      use.elements *= n ? static_cast<double>(*n) : 1;
    }
    use.bytes = use.elements * b->dtype.bytes();
    out_.buffers.push_back(use);
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  void add_access(const BufferNode* b, const std::vector<Expr>& indices, double w, bool store) {
    Access a;
    a.buffer = b;
    a.slot = slot_of(b);
    a.weight = w;
    a.element_bytes = b->dtype.bytes();
    (store ? a.written : a.read) = true;
    // Row-major: the last index moves by one element. A flat access has a single index.
    double step = 1;
    for (size_t d = indices.size(); d-- > 0;) {
      nest_.put(&a.form, indices[d], step);
      if (indices.size() == b->shape.size()) {
        const int64_t* n = as_int(b->shape[d]);
        step *= n ? static_cast<double>(*n) : 1;
      }
    }
    std::sort(
        a.form.digits.begin(), a.form.digits.begin() + a.form.size,
        [](const Digit& x, const Digit& y) { return std::abs(x.stride) < std::abs(y.stride); });
    // Another access to the same place, as in C[i] = C[i] + ..., or to a neighbour of it.
    for (Access& o : current_->accesses) {
      if (o.slot != a.slot ||
          !std::equal(o.form.begin(), o.form.end(), a.form.begin(), a.form.end())) {
        continue;
      }
      if (o.form.constant != a.form.constant) {
        if (o.places.empty()) o.places.push_back(o.form.constant);
        o.places.push_back(a.form.constant);
      }
      o.read |= a.read;
      o.weight = std::max(o.weight, a.weight);
      return;
    }
    current_->accesses.push_back(std::move(a));
  }

  Program out_;
  Nest nest_;
  double weight_ = 1;
  size_t block_begin_ = 0;
  Statement* current_ = nullptr;
  Statement scratch_;          ///< the current statement
  std::vector<Access> spare_;  ///< memory of one that was joined
  std::vector<const ExprNode*> seen_;
  int visits_ = 0;
};

}  // namespace

Program walk_program(const LoweredFunction& f) { return Walker(f).take(); }

}  // namespace heddle::cost_model
