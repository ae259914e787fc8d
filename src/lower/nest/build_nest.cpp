#include "lower/nest/build_nest.h"

#include <utility>

#include "lower/nest/bodies.h"
#include "lower/nest/followers.h"
#include "lower/nest/kept.h"
#include "lower/nest/regions.h"
#include "lower/nest/tails.h"

namespace heddle::lowering {
namespace {

// Opens the loops of stages, outermost first, and asks the parts what is inside of each.
class NestBuilder {
 public:
  NestBuilder(const ScheduleState& s, const std::vector<StageBuffers>& external,
              const NestOptions& options)
      : graph_(s),
        s_(s),
        axes_(graph_, options.plain_accesses),
        storage_(graph_, axes_, external),
        bodies_(graph_, axes_, storage_),
        tails_(graph_, axes_, options.masks),
        followers_(graph_, axes_, storage_) {}

  Stmt roots(const std::vector<int>& list, size_t from = 0);

 private:
  // A stage that is computed at a loop, and the part of it that is read there.
  struct Here {
    int stage;
    std::vector<Expr> mins = {}, extents = {};
  };
  Stmt emit_stage(const Here& x);
  Stmt emit_loops(const LoopPlace& at, LoopsFor what);
  Stmt emit_loop(const LoopPlace& at, LoopsFor what);
  // The statements inside of loop `at`: the stages computed here, then the remaining loops.
  Stmt inside(const LoopPlace& at, LoopsFor what);
  Stmt inside(const LoopPlace& at, std::vector<Here> here, bool rescales);
  // The stages that are computed at loop `at`, stored at it, follow it, or several of these.
  std::vector<Here> stages_at(const LoopPlace& at) const;
  // Finds the parts of them that are read.
  void find_parts(const LoopPlace& at, std::vector<Here>* here);
  // Makes the buffers that hold stage `x` inside of `loop`, if these are made here, and adds an
  // allocation of each.
  void hold(const Here& x, int loop, std::vector<std::pair<Buffer, int>>* allocations);
  bool is_first_reduce(const LoopPlace& at) const;
  // Whether iterations of reduce loop `at` that change nothing are left out. Counting them takes longer
  // than computing them unless they are a tile of a product.
  bool may_leave_out(const LoopPlace& at) const;

  const StageGraph graph_;
  const ScheduleState& s_;
  AxisScope axes_;
  Storage storage_;
  const Bodies bodies_;
  Tails tails_;
  Followers followers_;
};

Stmt NestBuilder::roots(const std::vector<int>& list, size_t from) {
  if (from == list.size()) return {};
  const StageState& x = graph_.stage(list[from]);
  Here here{list[from]};
  for (const int a : x.spatial) {
    here.mins.emplace_back(0);
    here.extents.push_back(s_.axes[a].extent);
  }
  const bool temporary = !storage_.holds(here.stage);
  if (temporary) storage_.make(here.stage, here.mins, here.extents, Scope::Global);
  Stmt nest = emit_stage(here);
  if (x.last_block) nest = make_for(Var("last"), Expr(1), LoopKind::LastBlock, nest);
  Stmt body = make_block({nest, roots(list, from + 1)});
  if (temporary) {
    for (const Buffer& b : storage_.buffers(here.stage)) body = make_allocate(b, body);
  }
  return body;
}

Stmt NestBuilder::emit_stage(const Here& x) {
  axes_.enter(x.stage, x.mins, x.extents);
  return emit_loops({x.stage, graph_.stage(x.stage).leaves, 0}, LoopsFor::Compute);
}

Stmt NestBuilder::emit_loops(const LoopPlace& at, LoopsFor what) {
  if (at.n == at.leaves.size()) {
    if (what == LoopsFor::Init) return bodies_.init(at.stage);
    return what == LoopsFor::Rescale ? bodies_.rescale(at.stage) : bodies_.store(at.stage);
  }
  if (what != LoopsFor::Compute || !is_first_reduce(at)) return emit_loop(at, what);
  const Stmt inits =
      followers_.inits(at, [&](int stage, const std::vector<int>& leaves, LoopsFor inner) {
        return emit_loops({stage, leaves, 0}, inner);
      });
  return make_block({inits, emit_loop(at, what)});
}

bool NestBuilder::is_first_reduce(const LoopPlace& at) const {
  for (size_t i = 0; i < at.n; ++i) {
    if (s_.axes[at.leaves[i]].kind == AxisKind::Reduce) return false;
  }
  return s_.axes[at.axis()].kind == AxisKind::Reduce;
}

bool NestBuilder::may_leave_out(const LoopPlace& at) const {
  if (at.axis() == graph_.stage(at.stage).reduce[0]) return true;
  const std::vector<Here> here = stages_at(at);
  return std::any_of(here.begin(), here.end(),
                     [&](const Here& x) { return graph_.stage(x.stage).is_reduction(); });
}

Stmt NestBuilder::emit_loop(const LoopPlace& at, LoopsFor what) {
  const AxisState& a = s_.axes[at.axis()];
  const AxisScope::Known known(axes_);
  Expr extent = axes_.extent(at.axis());
  const Expr most = extent;
  if (what == LoopsFor::Compute && a.kind == AxisKind::Reduce && may_leave_out(at)) {
    const AxisScope::Iterations needed = axes_.needed(at.stage, at.axis(), extent);
    extent = bodies_.iterations(needed.extent, at.stage);
    if (needed.begin.defined()) axes_.begin_at(at.axis(), needed.begin);
  }
  const Var v(a.name);
  const bool unit = is_const(extent, 1);
  if (!unit) axes_.loops().open(v, extent, most);
  const std::vector<int> splits = axes_.bind(at.axis(), unit ? Expr(0) : v.expr());
  const Stmt body = tails_.cases(at, splits, [&] { return inside(at, what); });
  // A loop that marks a tile stays, even with one iteration.
  if (unit && !is_cluster(a.loop) && !is_tensorized(a.loop)) return body;
  return make_for(v, extent, a.loop, body);
}

Stmt NestBuilder::inside(const LoopPlace& at, LoopsFor what) {
  const StageState& x = graph_.stage(at.stage);
  const bool rescales = x.rescale.defined() && !x.reduce.empty() && x.reduce[0] == at.axis();
  std::vector<Here> here = what == LoopsFor::Compute ? stages_at(at) : std::vector<Here>();
  if (what != LoopsFor::Compute || (here.empty() && !rescales))
    return emit_loops({at.stage, at.leaves, at.n + 1}, what);
  return inside(at, std::move(here), rescales);
}

Stmt NestBuilder::inside(const LoopPlace& at, std::vector<Here> here, bool rescales) {
  const auto emit = [&](int stage, const std::vector<int>& leaves, LoopsFor inner) {
    return emit_loops({stage, leaves, 0}, inner);
  };
  find_parts(at, &here);
  const Storage::Restored held_outside(storage_);
  std::vector<std::pair<Buffer, int>> allocations;
  for (const Here& p : here) hold(p, at.axis(), &allocations);
  std::vector<Stmt> seq;
  for (const Here& p : here) {
    const StageState& x = graph_.stage(p.stage);
    if (x.along == at.axis()) {
      seq.push_back(followers_.update(p.stage, at.axis(), emit));
    } else if (x.store_axis != at.axis() && x.along < 0) {
      seq.push_back(emit_stage(p));
    }
  }
  if (rescales) seq.push_back(followers_.rescale(at.stage, at.leaves, emit));
  seq.push_back(emit_loops({at.stage, at.leaves, at.n + 1}, LoopsFor::Compute));
  Stmt body = make_block(std::move(seq));
  for (const auto& [b, copies] : allocations) body = make_allocate(b, body, copies);
  return body;
}

std::vector<NestBuilder::Here> NestBuilder::stages_at(const LoopPlace& at) const {
  std::vector<Here> here;
  for (const int p : graph_.order()) {
    const StageState& x = graph_.stage(p);
    if (x.placement == Placement::At &&
        (x.store_axis == at.axis() || (x.at_stage == at.stage && x.at_axis == at.axis()) ||
         x.along == at.axis()))
      here.push_back({p});
  }
  return here;
}

void NestBuilder::find_parts(const LoopPlace& at, std::vector<Here>* here) {
  // That a region spans whole tiles says nothing about the loops inside, which may have tails.
  const AxisScope::Known known(axes_);
  Regions regions(graph_, axes_, at.stage, at.n);
  for (Here& p : *here) {
    const StageState& x = graph_.stage(p.stage);
    if (x.along == at.axis()) continue;
    const Region& r = regions.of(p.stage);
    for (const SymInterval& dim : r.dims) {
      p.mins.push_back(dim.lo);
      p.extents.push_back(axes_.loops().simple(dim.hi - dim.lo + Expr(1)));
    }
    axes_.set_beyond(p.stage, r.beyond);
    if (x.store_axis == at.axis()) check_kept(graph_, regions, p.stage);
  }
}

void NestBuilder::hold(const Here& p, int loop, std::vector<std::pair<Buffer, int>>* allocations) {
  const StageState& x = graph_.stage(p.stage);
  if (x.along == loop) return;
  if (x.along >= 0) {
    std::vector<SymInterval> held;
    for (size_t d = 0; d < p.mins.size(); ++d)
      held.push_back({p.mins[d], axes_.loops().simple(p.mins[d] + p.extents[d] - Expr(1)), true});
    axes_.hold(p.stage, std::move(held));
  }
  if (x.store_axis >= 0 && x.store_axis != loop) {
    check_is_held(graph_, storage_, p.stage);
    return;
  }
  for (const Buffer& b : storage_.make(p.stage, p.mins, p.extents, x.scope))
    allocations->emplace_back(b, x.copies);
}

}  // namespace

Stmt build_nest(const ScheduleState& state, const std::vector<int>& roots,
                const std::vector<StageBuffers>& external, const NestOptions& options) {
  return NestBuilder(state, external, options).roots(roots);
}

}  // namespace heddle::lowering
