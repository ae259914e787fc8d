#include "schedule/groups/placement.h"

#include <algorithm>

#include "heddle/dag/all_producers.h"

namespace heddle {
namespace {

bool holds(const std::vector<int>& list, int x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// The location decision of `stage`, or null where it has none.
const Param* location_of(const GroupPlaces& group, int stage) {
  for (const auto& l : group.locations) {
    if (l.stage == stage) return &l.decision;
  }
  return nullptr;
}

// Whether read `a` of `reader` is at distinct whole axes of the reader, and at all of its axes.
bool reads_each_once(const Access& a, const Operation& reader) {
  std::vector<Axis> axes = reader.axes();
  axes.insert(axes.end(), reader.reduce_axes().begin(), reader.reduce_axes().end());
  for (int d = 0; d < a.tensor.rank(); ++d) {
    const auto& index = a.affine[static_cast<size_t>(d)];
    if (!index || index->constant != 0 || index->terms.size() != 1) return false;
    const auto axis = std::find_if(axes.begin(), axes.end(), [&](const Axis& x) {
      return index->coefficient(x.var()) == 1 && x.extent() == a.tensor.extent(d);
    });
    if (axis == axes.end()) return false;
    axes.erase(axis);
  }
  return std::all_of(axes.begin(), axes.end(), [](const Axis& x) { return x.extent() == 1; });
}

// The loops offered by readers of `stage` that read each element of it once, if all other readers
// run after these.
std::vector<StageGroup::ReaderLoop> reader_loops_of(const TemplateBuilder& t, int stage) {
  const ComputeDag& dag = t.dag();
  std::vector<StageGroup::ReaderLoop> out;
  const std::vector<int>& readers = dag.info(stage).consumers;
  for (const StageGroup::ReaderLoop& offer : t.group().reader_loops) {
    const int r = offer.reader;
    const bool first = std::all_of(readers.begin(), readers.end(), [&](int other) {
      const std::vector<int> from = all_producers(dag, other);
      return other == r || std::binary_search(from.begin(), from.end(), r);
    });
    if (!first || !holds(readers, r)) continue;
    const auto& reads = dag.info(r).reads;
    const bool once = std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
      return a.producer != stage || reads_each_once(a, dag.stage(r));
    });
    if (once) out.push_back(offer);
  }
  return out;
}

// Whether `reader` reads `stage`, directly or through stages whose location is a decision.
bool read_through_located(const TemplateBuilder& t, int stage, int reader) {
  std::vector<int> todo{stage}, seen;
  while (!todo.empty()) {
    const int s = todo.back();
    todo.pop_back();
    for (int c : t.dag().info(s).consumers) {
      if (c == reader) return true;
      const bool passes_on = location_of(t.group(), c) || holds(t.group().inlined, c);
      if (!passes_on || holds(seen, c)) continue;
      seen.push_back(c);
      todo.push_back(c);
    }
  }
  return false;
}

// A packed stage may be inlined into its packed copy, which is at the root. The stages that it
// reads must then be at the root too. Returns the packed copies that read `stage`.
std::vector<GroupPlaces::KeptAtRoot> packed_from(const TemplateBuilder& t, int stage) {
  std::vector<GroupPlaces::KeptAtRoot> out;
  for (const GroupPlaces::KeptAtRoot& kept : t.group().kept) {
    if (kept.stage == stage || read_through_located(t, stage, kept.stage)) out.push_back(kept);
  }
  return out;
}

// A reader whose location is a decision.
struct LocatedReader {
  int stage = -1;
  Param location;
};

// Readers of readers count too, because an inlined stage carries its reads to its readers.
std::vector<LocatedReader> located_readers(const TemplateBuilder& t, int stage) {
  const ComputeDag& dag = t.dag();
  std::vector<LocatedReader> out;
  std::vector<int> todo = dag.info(stage).consumers, seen;
  while (!todo.empty()) {
    const int r = todo.back();
    todo.pop_back();
    if (holds(seen, r)) continue;
    seen.push_back(r);
    for (int c : dag.info(r).consumers) todo.push_back(c);
    if (const Param* location = location_of(t.group(), r)) out.push_back({r, *location});
  }
  return out;
}

// The deepest location that the requirements of require_enclosing allow by the defaults of the
// other knobs.
int deepest_default(const TemplateBuilder& t, int stage) {
  const std::vector<StageGroup::Place>& places = t.group().places;
  const auto deepest_of = [&](int at) {
    for (const auto& kept : packed_from(t, stage)) {
      if (t.chosen(kept.knob) == kept.value) return 0;
    }
    for (const LocatedReader& reader : located_readers(t, stage)) {
      if (const int64_t theirs = t.chosen(reader.location); theirs >= 0)
        at = std::min(at, static_cast<int>(theirs));
    }
    return at;
  };
  const auto missing = [&](const StageGroup::Place& place) {
    return std::any_of(place.needs.begin(), place.needs.end(),
                       [&](const auto& need) { return t.chosen(need.first) != need.second; });
  };
  int deepest = deepest_of(static_cast<int>(places.size()));
  while (deepest > 0 && missing(places[static_cast<size_t>(deepest) - 1])) --deepest;
  return deepest;
}

// A place exists only where the knobs that its loop needs have the right values.
void require_existing_place(TemplateBuilder& t, int stage, Param mine) {
  const auto& places = t.group().places;
  for (size_t p = 0; p < places.size(); ++p) {
    for (const auto& [knob, value] : places[p].needs) {
      const Param needed = knob;
      const int64_t wanted = value, at = static_cast<int64_t>(p) + 1;
      t.require("'" + t.dag().stage(stage).name() + "' must be computed at a loop that exists",
                [=](const KnobValue& v) { return v(mine) != at || v(needed) == wanted; });
    }
  }
}

void require_root_where_packed(TemplateBuilder& t, int stage, Param mine) {
  for (const auto& kept : packed_from(t, stage)) {
    t.require(
        "'" + t.dag().stage(stage).name() + "' must be computed at the root where it is packed",
        [=](const KnobValue& v) { return v(mine) <= 0 || v(kept.knob) != kept.value; });
  }
}

void require_outside_of_readers(TemplateBuilder& t, int stage, Param mine) {
  const ComputeDag& dag = t.dag();
  for (const LocatedReader& reader : located_readers(t, stage)) {
    const Param theirs = reader.location;
    t.require(
        "'" + dag.stage(stage).name() + "' must be computed outside of its reader '" +
            dag.stage(reader.stage).name() + "'",
        [=](const KnobValue& v) { return v(mine) < 0 || v(theirs) < 0 || v(mine) <= v(theirs); });
  }
}

}  // namespace

StageGroup attached_group(const TemplateBuilder& t, const StageGroup& host, int stage) {
  const ComputeDag& dag = t.dag();
  StageGroup g;
  g.output_stage = g.anchor = stage;
  g.anchor_class = dag.info(stage).stage_class;
  g.attached = true;
  g.allow_tf32 = host.allow_tf32;
  g.places = t.group().places;
  g.reader_loops = reader_loops_of(t, stage);
  g.deepest = deepest_default(t, stage);
  g.in_chain = holds(host.chain, stage);
  for (const auto* parts : {&host.images, &host.products}) {
    for (const StageGroup::Part& part : *parts) {
      if (part.last != stage) continue;
      g.in_images = parts == &host.images;
      g.anchor = part.product;
      g.anchor_class = dag.info(part.product).stage_class;
    }
  }
  for (int s : host.operands) {
    if (holds(dag.info(g.anchor).producers, s)) g.operands.push_back(s);
  }
  g.reason = dag.info(g.anchor).reason;
  return g;
}

void require_enclosing(TemplateBuilder& t, int stage) {
  const Param* location = location_of(t.group(), stage);
  if (!location) return;
  const Param mine = *location;
  require_existing_place(t, stage, mine);
  require_root_where_packed(t, stage, mine);
  require_outside_of_readers(t, stage, mine);
}

}  // namespace heddle
