#include "lower/gpu/threads/buffer_uses.h"

#include <algorithm>
#include <unordered_set>

#include "heddle/ir/simplify.h"
#include "lower/gpu/threads/thread_reduction.h"

namespace heddle::gpu {
namespace {

class Collector {
 public:
  Collector(const TileNests& nests, const std::set<const StmtNode*>& reductions)
      : nests_(nests), reductions_(reductions) {}

  void collect(const Stmt& s, std::vector<OpenLoop> open, Ranges ranges) {
    if (!s) return;
    if (const For* f = s.as<For>()) {
      if (reductions_.count(s.get())) return collect_reduction(*f, open);
      if (is_tensorized(f->loop)) return collect_tile(*f, open);
      const Interval n = range_of(f->extent, ranges);
      ranges.set(f->var, {0, std::max<int64_t>(0, n.max - 1)});
      open.push_back({f->var, f->loop, n.max});
      collect_loads(f->extent, open);
      return collect(f->body, std::move(open), std::move(ranges));
    }
    if (const Allocate* a = s.as<Allocate>()) {
      BufferUse& use = uses_[a->buffer.get()];
      use.allocate = a;
      for (const OpenLoop& l : open) {
        if (is_thread(l.kind)) use.around.push_back(l);
      }
      depth_[a->buffer.get()] = open.size();
    }
    if (const If* i = s.as<If>()) {
      collect_loads(i->condition, open);
      conditions_.push_back(i->condition);
      collect(i->then_body, open, ranges);
      conditions_.pop_back();
      return collect(i->else_body, std::move(open), std::move(ranges));
    }
    if (const Store* st = s.as<Store>()) note(st->buffer, st->indices, true, open);
    map_children(
        s,
        [&](const Stmt& c) {
          collect(c, open, ranges);
          return c;
        },
        [&](const Expr& e) {
          collect_loads(e, open);
          return e;
        });
  }

  BufferUses take() { return std::move(uses_); }

 private:
  // An expression is a graph: a node is visited once under the conditions around it or fewer.
  void collect_loads(const Expr& e, const std::vector<OpenLoop>& open) {
    seen_.emplace_back();
    visit_loads(e, open);
    seen_.pop_back();
  }

  // What a choice reads, it reads under its condition, by which indices may be simplified. Deep
  // within choices the conditions around are enough: of choices of choices of shared nodes there
  // would be too many.
  void visit_loads(const Expr& e, const std::vector<OpenLoop>& open) {
    constexpr size_t kMostChoices = 2;
    if (e->shared() && !SeenNodes::is_leaf(e)) {
      for (const auto& around : seen_)
        if (around.contains(e.get())) return;
      seen_.back().insert(e.get());
    }
    if (const Load* load = e.as<Load>()) note(load->buffer, load->indices, false, open);
    const Select* choice = seen_.size() <= kMostChoices ? e.as<Select>() : nullptr;
    if (!choice) return for_each_child(e, [&](const Expr& c) { visit_loads(c, open); });
    visit_loads(choice->condition, open);
    visit_loads_under(choice->condition, choice->on_true, open);
    visit_loads_under(!choice->condition, choice->on_false, open);
  }

  void visit_loads_under(const Expr& condition, const Expr& e, const std::vector<OpenLoop>& open) {
    conditions_.push_back(condition);
    collect_loads(e, open);
    conditions_.pop_back();
  }

  void collect_reduction(const For& f, std::vector<OpenLoop> open) {
    ThreadReduction r = *as_thread_reduction(f);
    for (const auto& c : r.components) {  // after the shuffles, all threads have the result
      note(c.to, c.at, true, open);
      note(c.to, c.at, false, open);
    }
    open.push_back({f.var, f.loop, *as_int(f.extent)});
    for (const auto& c : r.components) collect_loads(c.part, open);
  }

  void collect_tile(const For& f, const std::vector<OpenLoop>& open) {
    const TileNest& t = nests_.at(&f);
    for (const auto* place : {&t.c, &t.a, &t.b}) {
      if (place->buffer) note(place->buffer, place->indices, place == &t.c, open, true);
    }
    if (t.kind == TileNest::Kind::Load) collect_loads(t.value, open);
  }

  void note(const Buffer& b, const std::vector<Expr>& indices, bool write,
            const std::vector<OpenLoop>& open, bool tile = false) {
    auto it = uses_.find(b.get());
    if (it == uses_.end()) return;
    const auto inside = open.begin() + static_cast<long>(depth_[b.get()]);
    it->second.accesses.push_back({indices, write, std::vector<OpenLoop>(inside, open.end()), tile,
                                   conditions_, std::vector<OpenLoop>(open.begin(), inside)});
  }

  const TileNests& nests_;
  const std::set<const StmtNode*>& reductions_;
  BufferUses uses_;
  std::vector<Expr> conditions_;                           // conditions of the open branches
  std::vector<std::unordered_set<const ExprNode*>> seen_;  // by the choices around
  std::map<const BufferNode*, size_t> depth_;              // loops around the allocation
};

}  // namespace

bool uses_any_thread(const Expr& e, const std::vector<OpenLoop>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const OpenLoop& l) { return is_thread(l.kind) && uses_var(e, l.var); });
}

const OpenLoop* BufferAccess::loop(const VarNode* v) const {
  for (const OpenLoop& l : loops) {
    if (l.var.get() == v) return &l;
  }
  return nullptr;
}

bool only_first_passes(const Expr& condition, const Var& v, const std::vector<OpenLoop>& loops) {
  Ranges later;
  for (const OpenLoop& l : loops) {
    if (l.extent > 0) later.set(l.var, {l.var.get() == v.get() ? 1 : 0, l.extent - 1});
  }
  return uses_var(condition, v) && prove(!condition, later);
}

const OpenLoop* BufferAccess::thread_loop(int dim) const {
  for (const OpenLoop& l : loops) {
    if (is_thread(l.kind) && grid_dim(l.kind) == dim) return &l;
  }
  return nullptr;
}

BufferUses find_buffer_uses(const Stmt& s, const TileNests& nests,
                            const std::set<const StmtNode*>& reductions) {
  Collector c(nests, reductions);
  c.collect(s, {}, {});
  return c.take();
}

}  // namespace heddle::gpu
