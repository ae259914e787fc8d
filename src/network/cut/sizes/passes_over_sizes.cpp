#include "network/cut/sizes/passes_over_sizes.h"

#include <algorithm>
#include <utility>

#include "dag/sizes/generalizer.h"
#include "heddle/support/error.h"
#include "network/passes/graph_pass.h"
#include "network/passes/product_places.h"

namespace heddle::network {
namespace {

/// Throws a User error unless the passes make `want` at an end of all ranges. What they rely on is linear
/// in the sizes, so that it then holds between the ends, too.
void check_end(const std::vector<Tensor>& over, const std::vector<SizeValue>& at,
               const ComputeDag& want) {
  dag::check_at_size(at[0], at_sizes(over, at).outputs, want.outputs());
}

Tensor find(const Instance& over, const Tensor& t) {
  for (const auto& [from, to] : over.tensors) {
    if (t && from.same_as(t)) return to;
  }
  return {};
}

}  // namespace

std::map<std::string, bool> settings_of(const std::vector<NetworkChoice>& choices,
                                        bool (*of)(ChoiceKind)) {
  std::map<std::string, bool> settings;
  for (const NetworkChoice& c : choices) {
    if (of(*kind_of(c.name))) settings[c.name] = c.on;
  }
  return settings;
}

StageTypes named_types(const ComputeDag& before, const PassOptions& passes) {
  StageTypes types;
  if (!passes.precision || passes.types.empty()) return types;
  for (const ProductPlace& p : product_places(before)) {
    const auto found = setting_in(passes.types, name_of(ChoiceKind::Precision, p.place));
    if (found != passes.types.end() && !found->second.is_declared()) types[p.stage] = found->second;
  }
  return types;
}

std::optional<ComputeDag> PassesOverSizes::run(std::vector<PassApplication>& log,
                                               std::string& why) {
  try {
    const std::vector<SizeValue> least = sizes_at(&SizeRange::lo),
                                 largest = sizes_at(&SizeRange::hi);
    ChoiceList of_least(others_);
    At at_least = before_types(least, of_least);
    of_usual_ = ChoiceList(passes_);
    of_usual_.expect(settings_of(of_least.list(), is_size_free));
    at_usual_ = before_types(usual_, of_usual_);
    types_ = named_types(at_usual_->dag, passes_);
    of_least.expect_types(types_);
    finish(at_least, of_least);
    size_free_ = settings_of(of_least.list(), is_size_free);
    of_usual_.expect(size_free_);
    of_usual_.expect_types(types_);
    finish(*at_usual_, of_usual_);
    ComputeDag over(from(0).outputs);
    check_end(over.outputs(), least, at_least.dag);
    ChoiceList of_largest = choices();
    At at_largest = before_types(largest, of_largest);
    finish(at_largest, of_largest);
    check_end(over.outputs(), largest, at_largest.dag);
    log = at_usual_->log;
    return over;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    why = e.message;
    return std::nullopt;
  }
}

std::vector<SizeValue> PassesOverSizes::sizes_at(int64_t SizeRange::* end) const {
  std::vector<SizeValue> at;
  for (const SizeValue& v : usual_) at.emplace_back(v.size, (*v.size->size).*end);
  return at;
}

PassesOverSizes::At PassesOverSizes::before_types(const std::vector<SizeValue>& sizes,
                                                  ChoiceList& choices) const {
  Instance here = at_sizes(declared_.outputs(), sizes);
  std::vector<PassApplication> log;
  ComputeDag dag = run_passes(ComputeDag(here.outputs), target_, passes_, choices, log,
                              {.until = to_string(ChoiceKind::Precision)});
  return {std::move(here), std::move(dag), std::move(log)};
}

void PassesOverSizes::finish(At& at, ChoiceList& choices) const {
  at.dag = run_passes(at.dag, target_, passes_, choices, at.log,
                      {.from = to_string(ChoiceKind::Precision)});
}

ChoiceList PassesOverSizes::choices() const {
  ChoiceList list(others_);
  list.expect(size_free_);
  list.expect_types(types_);
  return list;
}

/// Over the sizes from number `first` on; those before it have values in `at_`.
PassesOverSizes::Made PassesOverSizes::from(size_t first) {
  if (first == usual_.size()) return at_values();
  const SizeValue& usual = usual_[first];
  at_.push_back(usual);
  const Made a = from(first + 1);
  // An axis of one element has only the index 0. The other size is therefore larger, if any is.
  const SizeRange range = *usual.size->size;
  const bool larger = usual.value < range.hi && (usual.value <= 2 || usual.value == range.lo);
  at_.back().value = larger ? usual.value + 1 : usual.value - 1;
  if (at_.back().value < range.lo) throw_user_error("'" + usual.size->name + "' has one size only");
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

PassesOverSizes::Made PassesOverSizes::at_values() const {
  const auto made = [&](const At& at) {
    return Made{at.dag.outputs(), at.here.of(declared_.placeholders())};
  };
  const bool usual = std::ranges::equal(at_, usual_, {}, &SizeValue::value, &SizeValue::value);
  if (usual) return made(*at_usual_);
  ChoiceList same = choices();
  At at = before_types(at_, same);
  finish(at, same);
  return made(at);
}

}  // namespace heddle::network
