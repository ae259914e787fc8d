#include "network/cut/family_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "dag/sizes/generalizer.h"
#include "heddle/family/schedule.h"
#include "heddle/support/error.h"
#include "network/passes/concat_in_place.h"
#include "network/passes/graph_pass.h"
#include "network/passes/product_places.h"

namespace heddle::network {
namespace {

const std::string kLeftOut = "left out, because its changes depend on the sizes of a call: ";

/// Over ranges of sizes the types of products are named, and nothing else.
ChoiceList of_types(const PassOptions& passes) {
  PassOptions types;
  types.precision = passes.precision;
  types.types = passes.types;
  return ChoiceList(types);
}

class PassesOverSizes {
 public:
  PassesOverSizes(const ComputeDag& declared, const Target& target, const PassOptions& passes,
                  const std::vector<SizeValue>& usual)
      : declared_(declared), target_(target), passes_(passes), usual_(usual) {}

  /// The choices at the usual sizes. Products have the types of these at all sizes.
  const ChoiceList& of_usual() const { return of_usual_; }

  /// nullopt where the passes make different graphs at different sizes, and `why`.
  std::optional<ComputeDag> run(std::vector<PassApplication>& log, std::string& why) {
    try {
      of_usual_ = of_types(passes_);
      // Choices whose names are the same at all sizes are those of the least sizes.
      ChoiceList of_least{PassOptions()};
      const std::vector<SizeValue> least = sizes_at(&SizeRange::lo),
                                   largest = sizes_at(&SizeRange::hi);
      if (!passes_.types.empty()) (void)passed(usual_, of_usual_);
      of_least.expect_types(of_usual_.types());
      const ComputeDag at_least = passed(least, of_least);
      for (const NetworkChoice& c : of_least.list()) {
        if (is_size_free(*kind_of(c.name))) size_free_[c.name] = c.on;
      }
      ComputeDag over(from(0).outputs);
      check_end(over.outputs(), least, at_least);
      ChoiceList same = choices();
      check_end(over.outputs(), largest, passed(largest, same));
      log = log_;
      return over;
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
      why = e.message;
      return std::nullopt;
    }
  }

 private:
  struct Made {
    std::vector<Tensor> outputs;
    std::vector<Tensor> placeholders;  ///< in the order of the declaration; empty: not read
  };

  ChoiceList choices() const {
    ChoiceList list{PassOptions()};
    list.expect(size_free_);
    list.expect_types(of_usual_.types());
    return list;
  }

  /// Over the sizes from number `first` on; those before it have values in `at_`.
  Made from(size_t first) {
    if (first == usual_.size()) return at_values();
    const SizeValue& usual = usual_[first];
    at_.push_back(usual);
    const Made a = from(first + 1);
    // An axis of one element has only the index 0. The other size is therefore larger, if any is.
    const SizeRange range = *usual.size->size;
    const bool larger = usual.value < range.hi && (usual.value <= 2 || usual.value == range.lo);
    at_.back().value = larger ? usual.value + 1 : usual.value - 1;
    if (at_.back().value < range.lo)
      throw_user_error("'" + usual.size->name + "' has one size only");
    const Made b = from(first + 1);
    const int64_t other = at_.back().value;
    at_.pop_back();
    dag::GeneralizeOptions options;
    const std::vector<Tensor> declared = declared_.placeholders();
    for (size_t i = 0; first == 0 && i < declared.size(); ++i) {
      if (a.placeholders[i]) options.placeholders.emplace_back(a.placeholders[i], declared[i]);
    }
    const Instance over =
        dag::generalized(usual.size.expr(), {usual.value, a.outputs}, {other, b.outputs}, options);
    Made made{over.outputs, {}};
    for (const Tensor& t : a.placeholders) made.placeholders.push_back(find(over, t));
    return made;
  }

  std::vector<SizeValue> sizes_at(int64_t SizeRange::* end) const {
    std::vector<SizeValue> at;
    for (const SizeValue& v : usual_) at.emplace_back(v.size, (*v.size->size).*end);
    return at;
  }

  /// The graph after the passes at these sizes.
  ComputeDag passed(const std::vector<SizeValue>& at, ChoiceList& choices) const {
    std::vector<PassApplication> ignored;
    const Instance here = at_sizes(declared_.outputs(), at);
    return run_passes(ComputeDag(here.outputs), target_, passes_, choices, ignored);
  }

  /// Throws a User error unless the passes make `want` at an end of all ranges. What they rely on
  /// is linear in the sizes, so that it then holds between the ends, too.
  static void check_end(const std::vector<Tensor>& over, const std::vector<SizeValue>& at,
                        const ComputeDag& want) {
    dag::check_at_size(at[0], at_sizes(over, at).outputs, want.outputs());
  }

  Made at_values() {
    const Instance here = at_sizes(declared_.outputs(), at_);
    std::vector<PassApplication> log;
    ChoiceList same = choices();
    const ComputeDag dag = run_passes(ComputeDag(here.outputs), target_, passes_, same, log);
    if (log_.empty()) log_ = std::move(log);
    return {dag.outputs(), here.of(declared_.placeholders())};
  }

  static Tensor find(const Instance& over, const Tensor& t) {
    for (const auto& [from, to] : over.tensors) {
      if (t && from.same_as(t)) return to;
    }
    return {};
  }

  const ComputeDag& declared_;
  const Target& target_;
  const PassOptions& passes_;
  const std::vector<SizeValue>& usual_;
  std::vector<SizeValue> at_;
  std::map<std::string, bool> size_free_;  ///< settings of choices by name
  ChoiceList of_usual_{PassOptions()};
  std::vector<PassApplication> log_;  ///< at the usual sizes
};

/// Sizes of which no two are equal: at equal ones a difference of sizes, such as the rows of a past, is 0 and
/// vanishes from sums. The size with the longer range becomes the larger one.
std::vector<SizeValue> apart(std::vector<SizeValue> at) {
  std::vector<SizeValue*> by_range;
  for (SizeValue& v : at) by_range.push_back(&v);
  std::ranges::stable_sort(by_range, {}, [](const SizeValue* v) { return v->size->size->hi; });
  for (size_t i = 1; i < by_range.size(); ++i) {
    SizeValue &before = *by_range[i - 1], &v = *by_range[i];
    if (v.value > before.value) continue;
    v.value = std::min(2 * before.value, v.size->size->hi);
    if (v.value == before.value && i == 1)
      before.value = std::max(before.value / 2, before.size->size->lo);
  }
  return at;
}

/// The graph after `passes`; nullopt where they make different graphs at different sizes, and `why`.
std::optional<FamilyGraph> attempt(const ComputeDag& declared, const Target& target,
                                   const PassOptions& passes, const std::vector<SizeValue>& usual,
                                   std::vector<PassApplication>& log, std::string& why) {
  PassesOverSizes over(declared, target, passes, usual);
  std::optional<ComputeDag> dag = over.run(log, why);
  if (!dag) return std::nullopt;
  return FamilyGraph{std::move(*dag), usual, over.of_usual(), passes};
}

/// The names of products at their stages of the graph in which their types are chosen.
std::map<int, std::string> names_of_products(const ComputeDag& at, const Target& target,
                                             const PassOptions& passes) {
  PassOptions without = passes;
  without.types.clear();
  ChoiceList choices(without);
  std::vector<PassApplication> ignored;
  const std::string kind = to_string(ChoiceKind::Precision);
  std::map<int, std::string> names;
  const ComputeDag dag = run_passes(at, target, without, choices, ignored, kind);
  for (const ProductPlace& p : product_places(dag)) names[p.stage] = kind + "@" + p.place;
  return names;
}

}  // namespace

FamilyGraph family_graph(const ComputeDag& declared, const Target& target,
                         const PassOptions& passes, std::vector<PassApplication>& log) {
  if (!passes.choices.empty())
    throw_user_error("'" + passes.choices.begin()->first +
                         "' is a choice at one size, and this network has a range of sizes",
                     {}, "give its dimensions numbers, or leave out the choice");
  const std::vector<SizeValue> usual = apart(usual_sizes(declared.outputs()));
  if (passes.concat_in_place) {
    const ComputeDag at(at_sizes(declared.outputs(), usual).outputs);
    if (!plan_concats(at).wholes.empty())
      log.push_back({"concat_in_place", "left out, because the network has a range of sizes"});
  }
  std::vector<PassApplication> done;
  std::string why, ignored;
  std::optional<FamilyGraph> over = attempt(declared, target, passes, usual, done, why);
  for (const PassDescription& pass : network_passes()) {
    if (over || !(passes.*pass.enabled)) continue;
    PassOptions fewer = passes;
    fewer.*pass.enabled = false;
    over = attempt(declared, target, fewer, usual, done, ignored);
    if (over) log.push_back({pass.name, kLeftOut + why});
  }
  if (!passes.types.empty() && passes.precision && (!over || !over->passes.precision))
    throw_user_error("products cannot have the same types at all sizes: " + why, {},
                     "give the dimensions numbers, or leave out the types of products");
  log.insert(log.end(), done.begin(), done.end());
  if (over) return std::move(*over);
  log.push_back({"all", kLeftOut + why});
  return {declared, usual, ChoiceList(PassOptions()), parse_passes("none", passes)};
}

PassOptions passes_at(const ComputeDag& at, const Target& target, PassOptions passes,
                      const StageTypes& types) {
  if (passes.types.empty() && types.empty()) return passes;
  passes.types.clear();
  for (const auto& [stage, name] : names_of_products(at, target, passes)) {
    if (const auto found = types.find(stage); found != types.end())
      passes.types[name] = found->second;
  }
  return passes;
}

StageTypes stage_types(const ComputeDag& at, const Target& target, const PassOptions& passes) {
  StageTypes types;
  for (const auto& [stage, name] : names_of_products(at, target, passes)) {
    if (const auto found = setting_in(passes.types, name); found != passes.types.end())
      types[stage] = found->second;
  }
  return types;
}

}  // namespace heddle::network
