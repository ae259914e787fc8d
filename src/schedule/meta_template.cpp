// The registry of meta-templates, and the dispatch of a DAG's groups to them.
#include <algorithm>
#include <list>
#include <mutex>
#include <set>

#include "heddle/dag/all_producers.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "heddle/support/hash.h"

namespace heddle {
namespace {

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::vector<MetaTemplate>& registry() {
  static std::vector<MetaTemplate> r;
  return r;
}

struct CacheEntry {
  uint64_t dag = 0;
  Target target;
  AutoSchedulerOptions options;
  std::string source;  ///< the version of the ChoiceSource, "" where there is none
  Template value;
};
std::list<CacheEntry>& cache() {  // most recent first
  static std::list<CacheEntry> c;
  return c;
}
constexpr size_t kCacheEntries = 256;

const MetaTemplate& pick(const std::vector<MetaTemplate>& all, const ComputeDag& dag,
                         const StageGroup& g, const TemplateBuilder& builder) {
  const MetaTemplate* best = nullptr;
  bool tie = false;
  for (const MetaTemplate& t : all) {
    if (!t.matches(dag, g, builder.target())) continue;
    if (t.name == builder.options().force_template) return t;
    if (!best || t.priority > best->priority) {
      best = &t;
      tie = false;
    } else if (t.priority == best->priority) {
      tie = true;
    }
  }
  if (!best)
    throw_internal_error("no meta-template takes the group of stage '" +
                         dag.stage(g.output_stage).name() + "'");
  HEDDLE_ICHECK(!tie, "two meta-templates of one priority match stage '" +
                          dag.stage(g.output_stage).name() + "'");
  return *best;
}

}  // namespace

// The location decision of `stage`, or null where it has none.
const Param* location_of(const TemplateBuilder& t, int stage) {
  for (const auto& [s, p] : t.locations_) {
    if (s == stage) return &p;
  }
  return nullptr;
}

// By default no deeper than any reader is by default, and at a place that exists then; readers that
// are inlined pass the question on.
int deepest_default(const TemplateBuilder& t, const ComputeDag& dag, int stage) {
  const auto missing = [&](const StageGroup::Place& place) {
    return std::any_of(place.needs.begin(), place.needs.end(),
                       [&](const auto& need) { return t.chosen(need.first) != need.second; });
  };
  int deepest = static_cast<int>(t.places_.size());
  while (deepest > 0 && missing(t.places_[static_cast<size_t>(deepest) - 1])) --deepest;
  for (int c : dag.info(stage).consumers) {
    const Param* p = location_of(t, c);
    int64_t at = p ? t.knobs_[p->knob].default_value : -1;
    bool inlined =
        p ? at < 0 : std::find(t.inlined_.begin(), t.inlined_.end(), c) != t.inlined_.end();
    const bool packed = std::any_of(t.kept_.begin(), t.kept_.end(), [&](const auto& kept) {
      return kept.stage == c && t.knobs_[kept.knob.knob].default_value == kept.value;
    });
    if (packed) {
      deepest = 0;
    } else if (inlined) {
      deepest = std::min(deepest, deepest_default(t, dag, c));
    } else if (p) {
      deepest = std::min(deepest, static_cast<int>(at));
    }
  }
  return deepest;
}

// Whether `a`, a read of `reader`, is at distinct whole axes of it, and at all of them.
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

// The loops offered by readers of `stage` that read each element of it once, and that all its other
// readers wait for.
std::vector<StageGroup::ReaderLoop> reader_loops_of(const TemplateBuilder& t, const ComputeDag& dag,
                                                    int stage) {
  std::vector<StageGroup::ReaderLoop> out;
  const std::vector<int>& readers = dag.info(stage).consumers;
  for (const StageGroup::ReaderLoop& offer : t.reader_loops_) {
    const int r = offer.reader;
    const bool first = std::all_of(readers.begin(), readers.end(), [&](int other) {
      const std::vector<int> from = all_producers(dag, other);
      return other == r || std::binary_search(from.begin(), from.end(), r);
    });
    if (!first || std::find(readers.begin(), readers.end(), r) == readers.end()) continue;
    const auto& reads = dag.info(r).reads;
    const bool once = std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
      return a.producer != stage || reads_each_once(a, dag.stage(r));
    });
    if (once) out.push_back(offer);
  }
  return out;
}

StageGroup attached_group(const TemplateBuilder& t, const ComputeDag& dag, const StageGroup& host,
                          int stage) {
  StageGroup g;
  g.output_stage = g.anchor = stage;
  g.anchor_class = dag.info(stage).stage_class;
  g.attached = true;
  g.allow_tf32 = host.allow_tf32;
  g.places = t.places_;
  g.reader_loops = reader_loops_of(t, dag, stage);
  g.deepest = deepest_default(t, dag, stage);
  g.in_chain = std::find(host.chain.begin(), host.chain.end(), stage) != host.chain.end();
  for (int s : host.operands) {
    const std::vector<int>& producers = dag.info(stage).producers;
    if (std::find(producers.begin(), producers.end(), s) != producers.end())
      g.operands.push_back(s);
  }
  g.reason = dag.info(stage).reason;
  return g;
}

// A stage must be computed at a loop that encloses its readers: no deeper than any attached reader.
/// Whether `reader` reads `stage`, directly or through stages whose location is a decision.
bool read_through_located(const TemplateBuilder& t, const ComputeDag& dag, int stage, int reader) {
  std::vector<int> todo{stage}, seen;
  while (!todo.empty()) {
    const int s = todo.back();
    todo.pop_back();
    for (int c : dag.info(s).consumers) {
      if (c == reader) return true;
      const bool passes_on = location_of(t, c) ||
                             std::find(t.inlined_.begin(), t.inlined_.end(), c) != t.inlined_.end();
      if (!passes_on || std::find(seen.begin(), seen.end(), c) != seen.end()) continue;
      seen.push_back(c);
      todo.push_back(c);
    }
  }
  return false;
}

void require_enclosing(TemplateBuilder& t, const ComputeDag& dag, int stage) {
  const Param* own = location_of(t, stage);
  if (!own) return;
  Param mine = *own;
  for (size_t p = 0; p < t.places_.size(); ++p) {
    for (const auto& [knob, value] : t.places_[p].needs) {
      Param needed = knob;
      int64_t wanted = value, at = static_cast<int64_t>(p) + 1;
      t.require("'" + dag.stage(stage).name() + "' must be computed at a loop that exists",
                [mine, at, needed, wanted](const TemplateBuilder::Value& v) {
                  return v(mine) != at || v(needed) == wanted;
                });
    }
  }
  for (const auto& kept : t.kept_) {
    // What is packed may be inlined into its packed copy, which is at the root: what it reads must
    // be there then.
    if (kept.stage != stage && !read_through_located(t, dag, stage, kept.stage)) continue;
    Param knob = kept.knob;
    int64_t value = kept.value;
    t.require("'" + dag.stage(stage).name() + "' must be computed at the root where it is packed",
              [mine, knob, value](const TemplateBuilder::Value& v) {
                return v(mine) <= 0 || v(knob) != value;
              });
  }
  // Through inlined readers too: they carry the read to their own readers.
  std::vector<int> todo = dag.info(stage).consumers, seen;
  while (!todo.empty()) {
    int r = todo.back();
    todo.pop_back();
    if (std::find(seen.begin(), seen.end(), r) != seen.end()) continue;
    seen.push_back(r);
    for (int c : dag.info(r).consumers) todo.push_back(c);
    for (const auto& [s, p] : t.locations_) {
      if (s != r) continue;
      Param theirs = p;
      t.require("'" + dag.stage(stage).name() + "' must be computed outside of its reader '" +
                    dag.stage(r).name() + "'",
                [mine, theirs](const TemplateBuilder::Value& v) {
                  return v(mine) < 0 || v(theirs) < 0 || v(mine) <= v(theirs);
                });
    }
  }
}

bool register_meta_template(MetaTemplate t) {
  std::lock_guard lock(mutex());
  for (const MetaTemplate& x : registry()) {
    HEDDLE_ICHECK(x.name != t.name, "two meta-templates of the name " + t.name);
  }
  registry().push_back(std::move(t));
  cache().clear();
  return true;
}

void unregister_meta_template(const std::string& name) {
  std::lock_guard lock(mutex());
  std::erase_if(registry(), [&](const MetaTemplate& t) { return t.name == name; });
  cache().clear();
}

std::vector<std::string> meta_template_names() {
  std::lock_guard lock(mutex());
  std::vector<std::string> names;
  for (const MetaTemplate& t : registry()) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  return names;
}

// The template that `all` write for `dag`, with what `source` chooses (null: the rules alone).
Template write_template(const std::vector<MetaTemplate>& all, const ComputeDag& dag,
                        const Target& target, const AutoSchedulerOptions& options,
                        const std::shared_ptr<const ChoiceSource>& source,
                        const std::string& first_note) {
  TemplateBuilder builder(dag, target, options);
  builder.consult(source);
  if (!first_note.empty()) builder.note(first_note);
  std::vector<StageGroup> groups = plan_groups(dag, &target);
  std::string name;
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].allow_tf32 = options.allow_tf32;
    const MetaTemplate& t = pick(all, dag, groups[i], builder);
    builder.set_prefix(groups.size() > 1 ? "g" + std::to_string(i) + "." : "");
    builder.note(t.name + ": " + groups[i].reason);
    // Inlined stages vanish before any loop is shaped, readers' bodies first complete.
    for (auto it = groups[i].inlined.rbegin(); it != groups[i].inlined.rend(); ++it) {
      builder.stage(*it).compute_inline();
    }
    builder.inlined_ = groups[i].inlined;
    builder.inlined_.insert(builder.inlined_.end(), groups[i].operands.begin(),
                            groups[i].operands.end());
    builder.places_.clear();
    builder.reader_loops_.clear();
    builder.locations_.clear();
    builder.kept_.clear();
    builder.writing_ = t.name;
    t.build(builder, groups[i]);
    if (name.find(t.name) == std::string::npos) name += (name.empty() ? "" : "+") + t.name;
    // Readers before what they read, so that a producer knows where its readers may be.
    std::string prefix = builder.prefix_;
    for (size_t h = groups[i].tunable.size(); h-- > 0;) {
      StageGroup attached = attached_group(builder, dag, groups[i], groups[i].tunable[h]);
      const MetaTemplate& ht = pick(all, dag, attached, builder);
      // By number: names would clash where two stages share one, and the template serves every
      // declaration of this structure, whatever its tensors are called.
      builder.set_prefix(prefix + "s" + std::to_string(attached.output_stage) + ".");
      builder.note(ht.name + ": " + attached.reason);
      builder.writing_ = ht.name;
      ht.build(builder, attached);
      if (name.find(ht.name) == std::string::npos) name += "+" + ht.name;
      require_enclosing(builder, dag, attached.output_stage);
    }
  }
  // Now that their packed copies exist, which take in what they are made from.
  std::set<int, std::greater<>> operands;
  for (const StageGroup& g : groups) operands.insert(g.operands.begin(), g.operands.end());
  for (int s : operands) builder.stage(s).compute_inline();
  const bool answered = builder.answered();
  Template result = builder.finish(name);
  if (!answered) return result;
  const std::string why = result.why_invalid(result.default_config());
  if (why.empty()) return result;
  // The rules' choices go together; answers for some knobs may not go with the rest.
  return write_template(
      all, dag, target, options, nullptr,
      "the rules chose alone: what " + source->version() + " chose is not legal: " + why);
}

Template make_template(const ComputeDag& dag, const Target& base,
                       const AutoSchedulerOptions& options) {
  check_options(options);
  const Target target = apply_options(base, options);
  const uint64_t hash = dag.structural_hash();
  const std::shared_ptr<const ChoiceSource> source =
      options.use_heuristics ? installed_choice_source() : nullptr;
  const std::string version = source ? source->version() : "";
  std::vector<MetaTemplate> all;
  {
    std::lock_guard lock(mutex());
    for (auto it = cache().begin(); it != cache().end(); ++it) {
      if (it->dag == hash && it->target == target && it->options == options &&
          it->source == version) {
        cache().splice(cache().begin(), cache(), it);
        return it->value.rebind(dag);
      }
    }
    all = registry();
  }
  Template result = write_template(all, dag, target, options, source, "");
  std::lock_guard lock(mutex());
  cache().push_front({hash, target, options, version, result});
  if (cache().size() > kCacheEntries) cache().pop_back();
  return result;
}

void clear_template_cache() {
  std::lock_guard lock(mutex());
  cache().clear();
}

}  // namespace heddle
