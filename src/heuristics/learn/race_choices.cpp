#include "heuristics/learn/race_choices.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "heddle/runtime/thread_pool.h"
#include "heddle/support/function_ref.h"
#include "support/hashing/hash.h"

namespace heddle::learning {
namespace {

/// Each race has a cache of its own, so that threads may ask for different ones.
void for_each(const std::vector<std::size_t>& races,
              FunctionRef<void(std::size_t i, std::size_t race)> visit) {
  parallel_for(std::ssize(races), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      visit(i, races[i]);
  });
}

// Constants that are asked together first. Those of one rule are declared together. The more there are, the more seldom none
// of them decides, and the likelier they hide each other.
constexpr std::size_t kTogether = 8;

/// Adds the constants of which an end of the range changes a choice. Most constants do not matter to a problem, so those
/// that change nothing together are not asked one by one.
void add_deciding(std::span<const ConstantInfo> group, const RuleConstants& now,
                  FunctionRef<bool(const RuleConstants&)> changes,
                  std::vector<const ConstantInfo*>& out) {
  const auto changes_at = [&](double ConstantInfo::* end) {
    RuleConstants other = now;
    for (const ConstantInfo& info : group) set_value(&other, info, info.*end);
    return changes(other);
  };
  if (!changes_at(&ConstantInfo::low) && !changes_at(&ConstantInfo::high)) return;
  if (group.size() == 1) return out.push_back(&group.front());
  add_deciding(group.first(group.size() / 2), now, changes, out);
  add_deciding(group.subspan(group.size() / 2), now, changes, out);
}

}  // namespace

RaceChoices::RaceChoices(const std::vector<CalibrationRace>& races, std::string_view kind,
                         std::uint64_t seed, const std::function<bool()>& expired)
    : kind_(kind), seed_(seed), expired_(expired) {
  // Mixed, so that chunks of races take threads as long.
  std::vector<const CalibrationRace*> order;
  for (const CalibrationRace& r : races) order.push_back(&r);
  std::ranges::stable_sort(order, {}, [&](const CalibrationRace* r) { return place(*r); });
  for (const CalibrationRace* r : order) {
    std::string key = r->choose(default_constants());
    if (!r->seconds.contains(key)) continue;
    races_.push_back(r);
    keys_.push_back(std::move(key));
  }
  at_.assign(races_.size(), default_constants());
  deciding_.resize(races_.size());
  std::vector<std::size_t> all(races_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  find_deciding(all);
}

std::uint64_t RaceChoices::place(const CalibrationRace& r) const {
  return hash_combine(hash_string(r.id), seed_);
}

std::vector<int> RaceChoices::folds_of(int folds) const {
  std::vector<int> all;
  int fold = 0;
  for (std::size_t r = 0; r < races_.size(); ++r) {
    if (r > 0 && place(*races_[r]) != place(*races_[r - 1])) fold = (fold + 1) % folds;
    all.push_back(fold);
  }
  return all;
}

void RaceChoices::find_deciding(const std::vector<std::size_t>& races) {
  for_each(races, [&](std::size_t, std::size_t r) {
    deciding_[r].clear();
    if (expired_ && expired_()) return;
    const std::span<const ConstantInfo> all = constants_of(kind_);
    for (std::size_t i = 0; i < all.size(); i += kTogether)
      add_deciding(
          all.subspan(i, std::min(kTogether, all.size() - i)), at_[r],
          [&](const RuleConstants& c) { return races_[r]->choose(c) != keys_[r]; }, deciding_[r]);
  });
}

std::vector<std::size_t> RaceChoices::decided_by(const ConstantInfo& info) const {
  std::vector<std::size_t> races;
  for (std::size_t r = 0; r < races_.size(); ++r) {
    if (std::ranges::find(deciding_[r], &info) != deciding_[r].end()) races.push_back(r);
  }
  return races;
}

std::vector<std::string> RaceChoices::chosen(const std::vector<std::size_t>& races,
                                             const ConstantInfo& info, double value) const {
  std::vector<std::string> keys(races.size());
  for_each(races, [&](std::size_t i, std::size_t r) {
    RuleConstants other = at_[r];
    set_value(&other, info, value);
    keys[i] = races_[r]->choose(other);
  });
  return keys;
}

std::vector<std::size_t> RaceChoices::decided_alone_by(const ConstantInfo& info) {
  std::vector<std::size_t> all(races_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::vector<std::string> low = chosen(all, info, info.low),
                                 high = chosen(all, info, info.high);
  for (const std::size_t r : all) {
    std::vector<const ConstantInfo*>& known = deciding_[r];
    const bool decides = low[r] != keys_[r] || high[r] != keys_[r];
    if (decides && std::ranges::find(known, &info) == known.end()) known.push_back(&info);
  }
  return decided_by(info);
}

int RaceChoices::move(const ConstantInfo& info, double value) {
  const std::vector<std::size_t> races = decided_by(info);
  const std::vector<std::string> keys = chosen(races, info, value);
  int changed = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t r = races[i];
    set_value(&at_[r], info, value);
    if (keys[i] == keys_[r]) continue;
    ++changed;
    if (races_[r]->seconds.contains(keys[i])) keys_[r] = keys[i];
  }
  find_deciding(races);  // others may decide them now
  return changed;
}

}  // namespace heddle::learning
