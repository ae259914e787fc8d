#include "lower/nest/dependence.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/sizes.h"

namespace heddle::lowering {
namespace {

// Whether the reads of stages depend on some root axes of the stage around them, `host`.
class Dependence {
 public:
  Dependence(const StageGraph& graph, int host, int axis)
      : graph_(graph), s_(graph.state()), host_(host) {
    add_roots(axis);
  }

  // Whether the region of stage `p` depends on them in any dimension.
  bool of_region(int p) {
    return any_dimension(p, [](int) { return true; });
  }

  // The same for the dimensions whose loops are a tile.
  bool of_tile(int p) {
    return any_dimension(p, [&](int axis) { return is_tile(axis); });
  }

 private:
  template <class Counts>
  bool any_dimension(int p, const Counts& counts) {
    const std::vector<int>& spatial = graph_.stage(p).spatial;
    for (size_t d = 0; d < spatial.size(); ++d) {
      if (counts(spatial[d]) && of_dimension(p, d)) return true;
    }
    return false;
  }

  // Whether loops over all of axis `id` need its length as a number.
  bool is_tile(int id) const {
    const AxisState& a = s_.axes[static_cast<size_t>(id)];
    if (a.split_outer >= 0) return is_tile(a.split_outer);
    if (a.fused_into >= 0) return is_tile(a.fused_into);
    return a.loop != LoopKind::Serial && a.loop != LoopKind::Parallel;
  }

  void add_roots(int id) {
    const AxisState& a = s_.axes[static_cast<size_t>(id)];
    if (a.origin == AxisOrigin::Root) {
      roots_.insert(id);
    } else if (a.origin == AxisOrigin::Fused) {
      add_roots(a.fuse_a);
      add_roots(a.fuse_b);
    } else {
      add_roots(a.parent);
    }
  }

  bool of_dimension(int p, size_t dim) {
    const auto [at, added] = known_.try_emplace({p, dim}, false);
    if (!added) return at->second;
    bool found = false;
    for (const int q : graph_.readers(p)) {
      for (const Expr& body : graph_.stage(q).bodies) {
        visit(body, [&](const Expr& e) {
          const Load* load = e.as<Load>();
          if (!found && load && graph_.stage_of(load->buffer) == p)
            found = of_index(load->indices[dim], q);
        });
      }
    }
    return known_[{p, dim}] = found;
  }

  bool of_index(const Expr& index, int reader) {
    const StageState& x = graph_.stage(reader);
    bool found = false;
    visit(index, [&](const Expr& e) {
      const VarNode* v = e.as<VarNode>();
      const auto is_v = [&](int id) { return s_.axes[static_cast<size_t>(id)].var.get() == v; };
      if (!v || found) return;
      const auto spatial = std::find_if(x.spatial.begin(), x.spatial.end(), is_v);
      const auto reduce = std::find_if(x.reduce.begin(), x.reduce.end(), is_v);
      if (reader == host_) {
        found = (spatial != x.spatial.end() && roots_.count(*spatial) > 0) ||
                (reduce != x.reduce.end() && roots_.count(*reduce) > 0);
      } else if (spatial != x.spatial.end()) {
        found = of_dimension(reader, static_cast<size_t>(spatial - x.spatial.begin()));
      } else if (reduce != x.reduce.end()) {
        // The axis may follow a loop of the host, or end where another axis says.
        const Expr& extent = s_.axes[static_cast<size_t>(*reduce)].extent;
        found = x.along >= 0 || !(as_int(extent) || is_symbolic(extent));
      }
    });
    return found;
  }

  const StageGraph& graph_;
  const ScheduleState& s_;
  const int host_;
  std::set<int> roots_;
  std::map<std::pair<int, size_t>, bool> known_;
};

// Whether `holds` for a stage that is computed between loop `at` and the loops below axis `id`.
template <class Holds>
bool any_between(const StageGraph& graph, const LoopPlace& at, int id, const Holds& holds) {
  const size_t first = graph.first_leaf(at.leaves, id);
  return std::any_of(graph.order().begin(), graph.order().end(), [&](int p) {
    const StageState& x = graph.stage(p);
    if (x.placement != Placement::At || x.at_stage != at.stage) return false;
    const auto leaf = std::find(at.leaves.begin(), at.leaves.end(), x.at_axis);
    const auto n = static_cast<size_t>(leaf - at.leaves.begin());
    return n >= at.n && n < first && holds(p);
  });
}

}  // namespace

bool region_of_inside(const StageGraph& graph, const LoopPlace& at, int id, bool sized) {
  Dependence dependence(graph, at.stage, id);
  return any_between(graph, at, id, [&](int p) { return !sized || dependence.of_region(p); });
}

bool tiles_span(const StageGraph& graph, const LoopPlace& at, int id) {
  Dependence dependence(graph, at.stage, id);
  return any_between(graph, at, id, [&](int p) { return dependence.of_tile(p); });
}

}  // namespace heddle::lowering
