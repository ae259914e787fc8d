// Stages that are computed at one loop and kept for a loop around it (store_at). Later statements
// of the outer loop read them, so the inner loop must have computed all of them by then.
#include <algorithm>

#include "heddle/support/error.h"
#include "lower/nest/nest_builder.h"

namespace heddle {

void NestBuilder::check_has_storage(int p) const {
  if (!real_[p].buffers.empty()) return;
  const AxisState& kept = s_.axes[stage(p).store_axis];
  throw_user_error("stage '" + stage(p).name + "' is kept for loop '" + kept.name + "' of '" +
                       stage(kept.stage).name + "', and computed outside of that loop",
                   {}, "compute '" + stage(stage(p).at_stage).name + "' at that loop");
}

void NestBuilder::check_kept(int p, int host, size_t n, std::map<int, Region>* memo) {
  const StageState& x = stage(p);
  auto fail = [&](const std::string& why, const std::string& help) {
    throw_user_error("stage '" + x.name + "' is computed at loop '" + s_.axes[x.at_axis].name +
                         "' of '" + stage(x.at_stage).name + "' and kept for loop '" +
                         s_.axes[x.store_axis].name + "' of '" + stage(host).name + "', but " + why,
                     {}, help);
  };
  // The loops between, from the one that computes the stage outwards.
  int top = -1;
  for (int axis = x.at_axis; s_.axes[axis].stage != host; axis = stage(top).at_axis) {
    top = s_.axes[axis].stage;
    if (stage(top).placement != Placement::At)
      fail("'" + stage(top).name + "' is not computed there", "compute it inside of that loop");
    for (int i = 0; i <= s_.leaf_position(axis); ++i) {
      const AxisState& a = s_.axes[stage(top).leaves[static_cast<size_t>(i)]];
      if (a.loop != LoopKind::Serial && a.loop != LoopKind::Unrolled)
        fail("loop '" + a.name + "' between is " + to_string(a.loop),
             "compute it outside of that loop");
    }
  }
  if (top < 0 || stage(top).at_axis != x.store_axis)
    fail("that is another loop than '" + stage(top < 0 ? p : top).name + "' is computed at",
         "keep it for the loop at which the stage around it is computed");
  if (!computed_whole(p, host, n, memo))
    fail("the loops between may not compute all of it",
         "compute it at a loop of a stage that reads each of its elements, at plain axes");
  const size_t inner = static_cast<size_t>(s_.leaf_position(x.at_axis));
  for (int r : graph_.readers(p)) {
    if (!graph_.runs_inside(r, x.at_stage, inner) &&
        (graph_.runs_inside(r, top, 0) || !graph_.depends_on(r, top)))
      fail("'" + stage(r).name + "' may read it before that", "compute it outside of that loop");
  }
}

// Whether the iterations of all loops between loop `n` of `host` and the loops that compute `p`
// together compute the whole region of `p`. Each iteration computes what its readers read, so one
// reader must read the whole region.
bool NestBuilder::computed_whole(int p, int host, size_t n, std::map<int, Region>* memo) {
  const StageState& x = stage(p);
  if (x.at_stage == host) return true;
  const size_t at = static_cast<size_t>(s_.leaf_position(x.at_axis));
  return std::any_of(graph_.readers(p).begin(), graph_.readers(p).end(), [&](int r) {
    return graph_.runs_inside(r, x.at_stage, at) && reads_whole(r, p, host, n, memo) &&
           computed_whole(r, host, n, memo);
  });
}

// Whether `reader` reads every element of the region of `p` that its loops cover. One of its reads
// must be at sums of axes without gaps, with different axes in each dimension.
bool NestBuilder::reads_whole(int reader, int p, int host, size_t n, std::map<int, Region>* memo) {
  const SymEnv env = reader_env(reader, host, n, memo);
  const Region& region = demand(p, host, n, memo);
  auto whole = [&](const Load& load) {
    std::vector<const VarNode*> used;
    for (size_t d = 0; d < load.indices.size(); ++d) {
      const std::optional<Affine> index = as_affine(load.indices[d]);
      if (!index) return false;
      std::vector<Affine::Term> terms = index->terms;
      std::sort(terms.begin(), terms.end(),
                [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
      int64_t reach = 1;  // number of contiguous elements
      for (const Affine::Term& t : terms) {
        const auto range = env.find(t.var.get());
        const bool again = std::find(used.begin(), used.end(), t.var.get()) != used.end();
        if (range == env.end() || again || t.coefficient <= 0 || t.coefficient > reach)
          return false;
        used.push_back(t.var.get());
        const SymInterval& r = range->second;
        const Expr length = simple(r.hi - r.lo);
        const int64_t* last = as_int(length);
        if (!last && &t != &terms.back()) return false;
        reach += t.coefficient * (last ? *last : 0);
      }
      SymInterval read = interval_of(load.indices[d], env, ranges_);
      if (!prove(read.lo <= region.dims[d].lo, ranges_) ||
          !prove(region.dims[d].hi <= read.hi, ranges_))
        return false;
    }
    return true;
  };
  bool found = false;
  for (const Expr& body : stage(reader).bodies) {
    visit(body, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      found |= load && graph_.stage_of(load->buffer) == p && whole(*load);
    });
  }
  return found;
}

}  // namespace heddle
