#include "lower/nest/regions.h"

#include <algorithm>
#include <optional>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/nest/open_parts.h"

namespace heddle::lowering {
namespace {

// Adds what one stage reads of another to a region.
class Reads {
 public:
  /// `parts`: of the reader, where it is the host; may be null.
  Reads(const StageGraph& graph, const OpenLoops& loops, const SymEnv& env, const OpenParts* parts)
      : graph_(graph), ranges_(loops.ranges()), env_(env), parts_(parts) {}

  // `any`: whether the region holds a read already.
  void add(const Expr& e, int stage, bool guarded, Region* region, bool* any) {
    if (!seen_[guarded ? 1 : 0].first(e)) return;
    if (const Load* load = e.as<Load>(); load && graph_.stage_of(load->buffer) == stage) {
      for (size_t d = 0; d < load->indices.size(); ++d) {
        SymInterval x = interval(load->indices[d]);
        if (guarded) x.exact = false;
        SymInterval& all = region->dims[d];
        all = *any ? hull(all, x, ranges_) : x;
      }
      *any = true;
    }
    const bool select = e.kind() == ExprKind::Select;
    for_each_child(e, [&](const Expr& c) { add(c, stage, guarded || select, region, any); });
  }

 private:
  SymInterval interval(const Expr& index) const {
    return parts_ ? parts_->interval(index, env_) : interval_of(index, env_, ranges_);
  }

  const StageGraph& graph_;
  const Ranges& ranges_;
  const SymEnv& env_;
  const OpenParts* parts_;
  SeenNodes seen_[2];  // the shared nodes that were visited without and with a guard
};

}  // namespace

const Region& Regions::of(int p) {
  const auto it = known_.find(p);
  return it != known_.end() ? it->second : known_[p] = find(p);
}

Region Regions::find(int p) {
  Region r;
  if (graph_.follows(p, host_)) {
    r.dims = axes_.part(p).held;
    return r;
  }
  r.dims.resize(graph_.stage(p).spatial.size());
  bool any = false;
  const std::string& name = graph_.stage(p).name;
  if (graph_.readers(p).empty()) throw_user_error("nothing reads stage '" + name + "'");
  for (const int q : graph_.readers(p)) {
    if (graph_.runs_inside(q, host_, n_)) {
      add_reads(p, q, &r, &any);
    } else if (!graph_.kept_around(p, host_, n_)) {
      const StageState& host = graph_.stage(host_);
      throw_user_error("stage '" + name + "' is computed at loop '" +
                           s_.axes[host.leaves[n_]].name + "' of '" + host.name + "', but '" +
                           graph_.stage(q).name + "' reads it outside of that loop",
                       {}, "choose a loop that encloses every reader");
    }  // Else its producers are computed here nevertheless.
  }
  bound(p, &r);
  return r;
}

void Regions::add_reads(int p, int reader, Region* region, bool* any) {
  SymEnv of_reader = env(reader);
  const OpenLoops::Scope imagined(axes_.loops());
  std::optional<OpenParts> parts;
  if (reader == host_) parts.emplace(graph_, axes_, host_, &of_reader);
  Reads reads(graph_, axes_.loops(), of_reader, parts ? &*parts : nullptr);
  for (const Expr& body : graph_.stage(reader).bodies) reads.add(body, p, false, region, any);
}

void Regions::bound(int p, Region* region) {
  const OpenLoops& loops = axes_.loops();
  for (size_t d = 0; d < region->dims.size(); ++d) {
    const AxisState& axis = s_.axes[graph_.stage(p).spatial[d]];
    const bool sized = is_symbolic(axis.extent);
    const Expr last = sized ? loops.simple(axis.extent - Expr(1)) : Expr(axis.static_extent - 1);
    SymInterval& x = region->dims[d];
    if (!x.bounded()) {
      x = {Expr(0), last, false};
    } else if (!x.exact) {
      if (!loops.proves(Expr(0) <= x.lo)) x.lo = loops.simple(max(x.lo, Expr(0)));
      if (loops.at_most(x.hi, last)) continue;
      // All threads of a GPU run the same iterations, so that all of them reach its barriers.
      // Vectors at the end of an axis are whole, too.
      const bool varies = sized || !sizes_in(x.hi).empty() || read_beyond(p);
      if ((graph_.on_gpu() || axes_.any_beyond()) && varies && as_int(loops.simple(x.hi - x.lo))) {
        region->beyond |= uint64_t{1} << d;
      } else {
        x.hi = loops.simple(min(x.hi, last));
      }
    }
  }
}

// Whether a reader of `p` goes beyond its own axes, so that it reads there, too: keys of a state that holds
// fewer rows than a tile.
bool Regions::read_beyond(int p) {
  return std::ranges::any_of(graph_.readers(p), [&](int q) {
    return graph_.runs_inside(q, host_, n_) &&
           (q == host_ ? axes_.part(q).beyond : of(q).beyond) != 0;
  });
}

SymEnv Regions::env(int reader) {
  if (reader == host_) return host_env();
  SymEnv env;
  const StageState& x = graph_.stage(reader);
  const Region& region = of(reader);
  for (size_t d = 0; d < x.spatial.size(); ++d)
    env[s_.axes[x.spatial[d]].var.get()] = region.dims[d];
  for (const int a : x.reduce) {
    SymInterval whole{Expr(0), s_.axes[a].extent - Expr(1), true};
    if (graph_.follows(reader, host_) && a == x.reduce[0]) whole = axes_.interval(x.along);
    env[s_.axes[a].var.get()] = reduce_interval(a, whole, env);
  }
  return env;
}

SymEnv Regions::host_env() {
  SymEnv env;
  const StageState& x = graph_.stage(host_);
  const AxisScope::Part& part = axes_.part(host_);
  const OpenLoops& loops = axes_.loops();
  for (size_t d = 0; d < x.spatial.size(); ++d) {
    const SymInterval i = axes_.interval(x.spatial[d]);
    const Expr& first = part.mins[d];
    const bool exact = i.exact && axes_.guards().empty() && part.beyond == 0;
    env[s_.axes[x.spatial[d]].var.get()] = {loops.simple(first + i.lo), loops.simple(first + i.hi),
                                            exact};
  }
  for (const int a : x.reduce)
    env[s_.axes[a].var.get()] = reduce_interval(a, axes_.interval(a), env);
  return env;
}

SymInterval Regions::reduce_interval(int a, const SymInterval& i, const SymEnv& env) const {
  if (as_int(s_.axes[a].extent) || is_symbolic(s_.axes[a].extent)) return i;
  const SymInterval hi = interval_of(i.hi, env, axes_.loops().ranges());
  return {i.lo, hi.hi, i.exact && hi.exact && hi.lo.same_as(hi.hi)};
}

}  // namespace heddle::lowering
