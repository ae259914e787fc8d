#include <algorithm>
#include <optional>
#include <set>

#include "heddle/ir/simplify.h"
#include "ir/replace.h"
#include "ir/sizes.h"
#include "lower/passes.h"
#include "lower/passes/fused_parts.h"
#include "lower/passes/loop_atoms.h"

namespace heddle::lowering {
namespace {

constexpr int kMaxSegments = 4;
constexpr int kMaxNodes = 20000;  // largest body to copy

Stmt replace(const Stmt& s, const Expr& from, const Expr& to) {
  RewriteMemo memo;
  return map_children(
      s, [&](const Stmt& c) { return replace(c, from, to); },
      [&](const Expr& e) { return replace_equal(e, from, to, memo); });
}

Stmt segment(const For& f, const Expr& from, const Expr& length, const Stmt& body) {
  Var v(f.var->name);
  return make_for(v, length, f.loop, substitute(body, {{f.var, v.expr() + from}}));
}

/// Whether there is a branch inside of loops of a matrix unit, whose tiles are one statement.
bool branches_in_tiles(const Stmt& s, bool inside = false) {
  if (!s) return false;
  if (inside && s.as<If>()) return true;
  const For* f = s.as<For>();
  inside |= f && is_tensorized(f->loop);
  bool found = false;
  map_children(
      s,
      [&](const Stmt& c) {
        found = found || branches_in_tiles(c, inside);
        return c;
      },
      [](const Expr& e) { return e; });
  return found;
}

class Partitioner {
 public:
  explicit Partitioner(bool on_gpu) : on_gpu_(on_gpu) {}
  Stmt partition(const Stmt& s, const Ranges& ranges) const;

 private:
  // Of what is inside of `s`.
  Stmt partition_inside(const Stmt& s, const Ranges& ranges) const;
  Stmt partition_loop(const For& f, const Ranges& ranges) const;
  Stmt cut_exactly(const For& f, const std::vector<LoopAtom>& atoms, const Ranges& ranges) const;
  Stmt cut_before_tail(const For& f, const std::vector<LoopAtom>& atoms,
                       const Ranges& ranges) const;
  Stmt branch(const Stmt& body, const FusedParts& fused, const std::vector<FusedParts::Part>& parts,
              size_t next, const Ranges& ranges, int most_nodes) const;
  Stmt partition_fused(const For& f, const Ranges& ranges) const;
  bool on_gpu_;
};

// The places where a variable in [0, n) changes a condition.
std::set<int64_t> constant_cuts(const std::vector<LoopAtom>& atoms, int64_t n) {
  std::set<int64_t> cuts, with_clamps;
  for (const LoopAtom& a : atoms) {
    for (int64_t r : {a.inner.min, a.inner.max}) {
      const Expr t = simplify(threshold(a, r));
      const int64_t* c = as_int(t);
      if (!c || *c <= 0 || *c >= n) continue;
      with_clamps.insert(*c);
      if (!a.clamp) cuts.insert(*c);
    }
  }
  return static_cast<int>(with_clamps.size()) < kMaxSegments ? with_clamps : cuts;
}

// The smaller of two lengths: of n/8 and (n + 7)/8 it is known.
Expr smaller(const Expr& a, const Expr& b) {
  const Binary *x = a.as<Binary>(), *y = b.as<Binary>();
  if (x && y && x->op == BinaryOp::FloorDiv && y->op == BinaryOp::FloorDiv && equal(x->b, y->b)) {
    const Expr difference = simplify(y->a - x->a);
    if (const int64_t* d = as_int(difference)) return *d >= 0 ? a : b;
  }
  return min(a, b);
}

Stmt replace_atom(const Stmt& body, const LoopAtom& a, bool value) {
  if (a.minimum.defined()) return replace(body, a.minimum, value ? a.where_true : a.where_false);
  return replace(body, a.condition, Expr(value));
}

// A cut that depends on outer loops or on sizes: exact where nothing varies inside. The comparison
// is gone from both parts, so the recursion ends.
Stmt Partitioner::cut_exactly(const For& f, const std::vector<LoopAtom>& atoms,
                              const Ranges& ranges) const {
  for (const LoopAtom& a : atoms) {
    if (a.clamp || !a.inner.is_point()) continue;
    const Expr at = simplify(threshold(a, a.inner.min), ranges);
    if (as_int(at)) continue;
    const Expr mid = simplify(max(Expr(0), smaller(at, f.extent)), ranges);
    Stmt before = f.body, after = f.body;
    // Others that change at the same place go with it.
    for (const LoopAtom& other : atoms) {
      if (other.clamp || !other.inner.is_point()) continue;
      if (&other != &a && !equal(simplify(threshold(other, other.inner.min), ranges), at)) continue;
      before = replace_atom(before, other, other.coefficient < 0);
      after = replace_atom(after, other, other.coefficient > 0);
    }
    std::vector<Stmt> out;
    out.push_back(segment(f, Expr(0), mid, before));
    out.push_back(segment(f, mid, f.extent - mid, after));
    return partition(simplify(make_block(std::move(out)), ranges), ranges);
  }
  return {};
}

// Where a condition on a size varies inside of the loop, it holds in all iterations before the last
// one or two. Only these keep it.
Stmt Partitioner::cut_before_tail(const For& f, const std::vector<LoopAtom>& atoms,
                                  const Ranges& ranges) const {
  for (const LoopAtom& a : atoms) {
    if (a.clamp || a.inner.is_point() || a.coefficient > 0) continue;
    const Expr at = simplify(threshold(a, a.inner.min), ranges);
    if (sizes_in(at).empty()) continue;
    const Expr mid = simplify(max(Expr(0), smaller(at, f.extent)), ranges);
    Stmt before = f.body;
    for (const LoopAtom& other : atoms) {
      if (other.clamp || other.coefficient > 0) continue;
      if (&other != &a && !equal(simplify(threshold(other, other.inner.min), ranges), at)) continue;
      before = replace_atom(before, other, true);
    }
    const Stmt full = simplify(segment(f, Expr(0), mid, before), ranges);
    if (equal(mid, f.extent)) return partition(full, ranges);
    const Stmt tail = simplify(segment(f, mid, f.extent - mid, f.body), ranges);
    return make_block({partition(full, ranges), partition_inside(tail, ranges)});
  }
  return {};
}

Stmt Partitioner::partition_loop(const For& f, const Ranges& ranges) const {
  LoopAtoms atoms = find_loop_atoms(f.var, f.body);
  // Threads of a GPU all wait at the same places, so their loops stay whole.
  if (on_gpu_) std::erase_if(atoms.list, [](const LoopAtom& a) { return a.minimum.defined(); });
  const int64_t* n = as_int(f.extent);
  if (atoms.list.empty() || atoms.nodes > kMaxNodes) return {};
  if (n) {
    std::set<int64_t> cuts = constant_cuts(atoms.list, *n);
    if (!cuts.empty() && static_cast<int>(cuts.size()) < kMaxSegments) {
      std::vector<Stmt> out;
      int64_t from = 0;
      cuts.insert(*n);
      for (int64_t to : cuts) {
        Stmt part = simplify(segment(f, Expr(from), Expr(to - from), f.body), ranges);
        out.push_back(partition(part, ranges));
        from = to;
      }
      return make_block(std::move(out));
    }
    if (!cuts.empty()) return {};
  }
  Stmt cut = cut_exactly(f, atoms.list, ranges);
  if (!cut && !on_gpu_) cut = cut_before_tail(f, atoms.list, ranges);
  // Loops inside may be cut without a branch where this one is whole.
  return !on_gpu_ && branches_in_tiles(cut) ? Stmt() : cut;
}

// A copy of `body` for each range of the part in which the same conditions hold, with `most_nodes`
// nodes in all. Conditions that only inner serial loops decide are left to those loops.
Stmt Partitioner::branch(const Stmt& body, const FusedParts& fused,
                         const std::vector<FusedParts::Part>& parts, size_t next,
                         const Ranges& ranges, int most_nodes) const {
  if (next == parts.size()) return partition(body, ranges);
  const auto& [part, of, extent] = parts[next];
  LoopAtoms atoms = find_loop_atoms(part, body);
  std::erase_if(atoms.list,
                [&](const LoopAtom& a) { return !a.copied || (on_gpu_ && a.minimum.defined()); });
  std::set<int64_t> cuts = constant_cuts(atoms.list, extent);
  const int copies = static_cast<int>(cuts.size()) + 1;
  if (copies == 1 || copies > kMaxSegments || atoms.nodes * copies > most_nodes)
    return branch(body, fused, parts, next + 1, ranges, most_nodes);
  cuts.insert(extent);
  Stmt out;
  for (auto to = cuts.rbegin(); to != cuts.rend(); ++to) {
    const auto below = std::next(to);
    Ranges here = ranges;
    here.set(part, {below == cuts.rend() ? 0 : *below, *to - 1});
    here = fused.narrowed(std::move(here));
    const Stmt copy =
        branch(simplify(body, here), fused, parts, next + 1, here, most_nodes / copies);
    out = out ? make_if(part.expr() < Expr(*to), copy, out) : copy;
  }
  return out;
}

// Each of the fused loops could have been cut on its own. A parallel loop stays one loop, and has
// branches instead.
Stmt Partitioner::partition_fused(const For& f, const Ranges& ranges) const {
  const int64_t* n = as_int(f.extent);
  if (!n) return {};
  FusedParts fused(f.var, *n);
  const Stmt body = fused.take_out(f.body);
  std::vector<FusedParts::Part> parts = fused.parts();
  if (f.loop == LoopKind::Parallel) parts.push_back(fused.whole());
  if (parts.empty()) return {};
  Ranges inside = ranges;
  inside.set(f.var, {0, *n - 1});
  for (const FusedParts::Part& p : parts) inside.set(p.var, {0, p.extent - 1});
  return make_for(f.var, f.extent, f.loop,
                  fused.put_back(branch(body, fused, parts, 0, inside, kMaxNodes)));
}

// Loops around operations of a GPU's matrix unit are not cut. Their tiles are always full, with
// zeros beyond the ends, and two loops would each need tiles of their own in shared memory.
bool feeds_matrix_unit(const Stmt& s) {
  bool found = false, on_gpu = false;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        found |= f && is_tensorized(f->loop);
        on_gpu |= f && is_thread(f->loop);
      },
      [](const Expr&) {});
  return found && on_gpu;
}

Stmt Partitioner::partition(const Stmt& s, const Ranges& ranges) const {
  if (!s) return s;
  const For* f = s.as<For>();
  // The lanes of a warp share the rows and columns of fragments, so the loop stays as it is.
  if (f && is_tensorized(f->loop)) return s;
  const bool serial = f && f->loop == LoopKind::Serial,
             parallel = f && f->loop == LoopKind::Parallel;
  if ((serial || parallel) && !feeds_matrix_unit(f->body)) {
    if (Stmt r = serial ? partition_loop(*f, ranges) : Stmt()) return r;
    if (Stmt r = partition_fused(*f, ranges)) return r;
  }
  return partition_inside(s, ranges);
}

Stmt Partitioner::partition_inside(const Stmt& s, const Ranges& ranges) const {
  if (!s) return s;
  const For* f = s.as<For>();
  Ranges inside = ranges;
  if (f) {
    Interval r = range_of(f->extent, ranges);
    inside.set(f->var, {0, r.max == Interval::kPosInf ? r.max : std::max<int64_t>(r.max - 1, 0)});
  }
  return map_children(
      s, [&](const Stmt& c) { return partition(c, inside); }, [](const Expr& e) { return e; });
}

}  // namespace

Stmt loop_partition(const Stmt& s) {
  bool on_gpu = false;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        on_gpu |= f && (is_thread(f->loop) || is_block(f->loop));
      },
      [](const Expr&) {});
  return Partitioner(on_gpu).partition(s, {});
}

}  // namespace heddle::lowering
