#include "network/cut/sizes/family_graph.h"

#include <algorithm>
#include <optional>
#include <string>

#include "heddle/family/schedule.h"
#include "heddle/support/error.h"
#include "network/cut/sizes/passes_over_sizes.h"
#include "network/passes/concat_in_place.h"
#include "network/passes/graph_pass.h"
#include "network/passes/product_places.h"

namespace heddle::network {
namespace {

const std::string kLeftOut = "left out, because its changes depend on the sizes of a call: ";

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

/// The graph in which the types of products are named.
ComputeDag before_types(const ComputeDag& at, const Target& target, const PassOptions& passes) {
  PassOptions without = passes;
  without.types.clear();
  ChoiceList choices(without);
  std::vector<PassApplication> ignored;
  return run_passes(at, target, without, choices, ignored,
                    {.until = to_string(ChoiceKind::Precision)});
}

/// Why a pass is left out: what differs right behind it, or where it makes no difference there, `why`
/// the graphs after all passes differ.
std::string reason(const ComputeDag& declared, const Target& target, PassOptions passes,
                   const std::vector<SizeValue>& usual, const PassDescription& left_out,
                   const std::string& why) {
  bool later = false;
  for (const PassDescription& pass : network_passes()) {
    if (later) passes.*pass.enabled = false;
    later |= pass.enabled == left_out.enabled;
  }
  std::vector<PassApplication> ignored;
  std::string own;
  (void)PassesOverSizes(declared, target, passes, usual).run(ignored, own);
  return own.empty() ? why : own;
}

/// Choices and types that are named are those of all sizes.
void require_named(const PassOptions& asked, const PassOptions& held, const std::string& why) {
  std::vector<std::string> named;
  for (const auto& [name, on] : asked.choices) named.push_back(name);
  for (const auto& [name, type] : asked.types) named.push_back(name);
  for (const std::string& name : named) {
    for (const PassDescription& pass : network_passes()) {
      if (pass.name != to_string(*kind_of(name)) || !(asked.*pass.enabled) || held.*pass.enabled)
        continue;
      throw_user_error("'" + name + "' cannot hold at all sizes: " + why, {},
                       "give the dimensions numbers, or leave it out");
    }
  }
}

/// Second runs of nodes depend on the bytes of buffers, which are those of one size.
void require_no_second_runs(const PassOptions& passes) {
  for (const auto& [name, on] : passes.choices) {
    if (kind_of(name) == ChoiceKind::Recompute)
      throw_user_error(
          "'" + name + "' is a choice at one size, and this network has a range of sizes", {},
          "give its dimensions numbers, or leave out the choice");
  }
}

}  // namespace

FamilyGraph family_graph(const ComputeDag& declared, const Target& target,
                         const PassOptions& passes, std::vector<PassApplication>& log) {
  require_no_second_runs(passes);
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
    if (!over) continue;
    why = reason(declared, target, passes, usual, pass, why);
    log.push_back({pass.name, kLeftOut + why});
  }
  const PassOptions held = over ? over->passes : without_passes(passes);
  require_named(passes, held, why);
  log.insert(log.end(), done.begin(), done.end());
  if (over) return std::move(*over);
  log.push_back({"all", kLeftOut + why});
  return {declared, usual, ChoiceList(held), held};
}

PassOptions passes_at(const ComputeDag& at, const Target& target, PassOptions passes,
                      const StageTypes& types) {
  if (passes.types.empty() && types.empty()) return passes;
  passes.types.clear();
  if (types.empty()) return passes;
  for (const ProductPlace& p : product_places(before_types(at, target, passes))) {
    if (const auto found = types.find(p.stage); found != types.end())
      passes.types[name_of(ChoiceKind::Precision, p.place)] = found->second;
  }
  return passes;
}

StageTypes stage_types(const ComputeDag& at, const Target& target, const PassOptions& passes) {
  return named_types(before_types(at, target, passes), passes);
}

std::map<std::string, bool> choices_at(const std::map<std::string, bool>& choices,
                                       const ComputeDag& over, const std::vector<SizeValue>& usual,
                                       const std::vector<SizeValue>& at) {
  if (choices.empty()) return {};
  // Both have the same stages.
  const ComputeDag from(at_sizes(over.outputs(), usual).outputs),
      to(at_sizes(over.outputs(), at).outputs);
  std::map<std::string, bool> settings;
  for (const auto& [name, on] : choices) {
    const ChoiceKind kind = *kind_of(name);
    if (!is_of_cut(kind) || name == all_like(name)) settings[name] = on;
    for (int s = 0; is_of_cut(kind) && s < from.size(); ++s) {
      if (!from.stage(s).is_placeholder() && name_of(kind, place_of(from.stage(s))) == name)
        settings[name_of(kind, place_of(to.stage(s)))] = on;
    }
  }
  return settings;
}

}  // namespace heddle::network
