#include "lower/nest/kept.h"

#include <algorithm>
#include <optional>
#include <string>

#include "heddle/support/error.h"

namespace heddle::lowering {
namespace {

class KeptStage {
 public:
  KeptStage(const StageGraph& graph, Regions& regions, int p)
      : graph_(graph),
        s_(graph.state()),
        x_(graph.stage(p)),
        regions_(regions),
        loops_(regions.axes().loops()),
        stage_(p) {}

  void check() {
    const int top = outermost_between();
    if (top < 0 || graph_.stage(top).at_axis != x_.store_axis)
      fail("that is another loop than '" + graph_.stage(top < 0 ? stage_ : top).name +
               "' is computed at",
           "keep it for the loop at which the stage around it is computed");
    if (!is_computed_whole(stage_))
      fail("the loops between may not compute all of it",
           "compute it at a loop of a stage that reads each of its elements, at plain axes");
    const size_t inner = static_cast<size_t>(s_.leaf_position(x_.at_axis));
    for (const int r : graph_.readers(stage_)) {
      if (!graph_.runs_inside(r, x_.at_stage, inner) &&
          (graph_.runs_inside(r, top, 0) || !graph_.depends_on(r, top)))
        fail("'" + graph_.stage(r).name + "' may read it before that",
             "compute it outside of that loop");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why, const std::string& help) const {
    throw_user_error("stage '" + x_.name + "' is computed at loop '" + s_.axes[x_.at_axis].name +
                         "' of '" + graph_.stage(x_.at_stage).name + "' and kept for loop '" +
                         s_.axes[x_.store_axis].name + "' of '" +
                         graph_.stage(regions_.host()).name + "', but " + why,
                     {}, help);
  }

  // The outermost of the stages between the loop that computes the stage and the one that keeps it,
  // whose loops must be plain; -1: there is none.
  int outermost_between() const {
    int top = -1;
    for (int axis = x_.at_axis; s_.axes[axis].stage != regions_.host();
         axis = graph_.stage(top).at_axis) {
      top = s_.axes[axis].stage;
      if (graph_.stage(top).placement != Placement::At)
        fail("'" + graph_.stage(top).name + "' is not computed there",
             "compute it inside of that loop");
      for (int i = 0; i <= s_.leaf_position(axis); ++i) {
        const AxisState& a = s_.axes[graph_.stage(top).leaves[static_cast<size_t>(i)]];
        if (a.loop != LoopKind::Serial && a.loop != LoopKind::Unrolled)
          fail("loop '" + a.name + "' between is " + to_string(a.loop),
               "compute it outside of that loop");
      }
    }
    return top;
  }

  // Whether the iterations of all loops between the keeping loop and the loops that compute `p`
  // together compute the whole region of `p`. Each iteration computes what its readers read, so one
  // reader must read the whole region.
  bool is_computed_whole(int p) {
    const StageState& x = graph_.stage(p);
    if (x.at_stage == regions_.host()) return true;
    const size_t at = static_cast<size_t>(s_.leaf_position(x.at_axis));
    return std::any_of(graph_.readers(p).begin(), graph_.readers(p).end(), [&](int r) {
      return graph_.runs_inside(r, x.at_stage, at) && reads_whole(r, p) && is_computed_whole(r);
    });
  }

  // Whether `reader` reads every element of the region of `p` that its loops cover.
  bool reads_whole(int reader, int p) {
    const SymEnv env = regions_.env(reader);
    const Region& region = regions_.of(p);
    bool found = false;
    for (const Expr& body : graph_.stage(reader).bodies) {
      visit(body, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        found |= load && graph_.stage_of(load->buffer) == p && covers(*load, env, region);
      });
    }
    return found;
  }

  // The load must be at sums of axes without gaps, with different axes in each dimension.
  bool covers(const Load& load, const SymEnv& env, const Region& region) const {
    std::vector<const VarNode*> used;
    for (size_t d = 0; d < load.indices.size(); ++d) {
      if (!has_no_gaps(load.indices[d], env, &used)) return false;
      const SymInterval read = interval_of(load.indices[d], env, loops_.ranges());
      if (!loops_.proves(read.lo <= region.dims[d].lo) ||
          !loops_.proves(region.dims[d].hi <= read.hi))
        return false;
    }
    return true;
  }

  bool has_no_gaps(const Expr& index, const SymEnv& env, std::vector<const VarNode*>* used) const {
    const std::optional<Affine> affine = as_affine(index);
    if (!affine) return false;
    std::vector<Affine::Term> terms = affine->terms;
    std::sort(terms.begin(), terms.end(),
              [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
    int64_t reach = 1;  // number of contiguous elements
    for (const Affine::Term& t : terms) {
      const auto range = env.find(t.var.get());
      const bool again = std::find(used->begin(), used->end(), t.var.get()) != used->end();
      if (range == env.end() || again || t.coefficient <= 0 || t.coefficient > reach) return false;
      used->push_back(t.var.get());
      const Expr length = loops_.simple(range->second.hi - range->second.lo);
      const int64_t* last = as_int(length);
      if (!last && &t != &terms.back()) return false;
      reach += t.coefficient * (last ? *last : 0);
    }
    return true;
  }

  const StageGraph& graph_;
  const ScheduleState& s_;
  const StageState& x_;
  Regions& regions_;
  const OpenLoops& loops_;
  const int stage_;
};

}  // namespace

void check_is_held(const StageGraph& graph, const Storage& storage, int p) {
  if (storage.holds(p)) return;
  const StageState& x = graph.stage(p);
  const AxisState& kept = graph.state().axes[x.store_axis];
  throw_user_error("stage '" + x.name + "' is kept for loop '" + kept.name + "' of '" +
                       graph.stage(kept.stage).name + "', and computed outside of that loop",
                   {}, "compute '" + graph.stage(x.at_stage).name + "' at that loop");
}

void check_kept(const StageGraph& graph, Regions& regions, int p) {
  KeptStage(graph, regions, p).check();
}

}  // namespace heddle::lowering
