#include "search/candidate_book.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "support/hashing/hash.h"

namespace heddle::search {
namespace {

// Spaces of up to this number of configs are enumerated once random draws find few new ones. In a
// larger space the search ends there.
constexpr double kListed = 20'000;
// The number of trials after which an alternative is judged, by its best time relative to the best
// of all.
constexpr int kTrialsOfAlternative = 8;
constexpr double kNearlyAsGood = 1.15, kClearlyBehind = 1.6;
constexpr int kDrawsBeforeListing = 200, kDraws = 4000;

uint64_t config_hash(const Config& config) {
  uint64_t h = config.values.size();
  for (int64_t v : config.values) h = hash_combine(h, static_cast<uint64_t>(v));
  return h;
}

}  // namespace

std::optional<uint64_t> CandidateBook::key_of(const Config& config, std::optional<Schedule>* made) {
  if (const auto at = keys_.find(config_hash(config)); at != keys_.end()) return at->second;
  Judged judged = judge(config);
  const std::optional<uint64_t> key = enter(config, judged);
  if (made) *made = std::move(judged.made);
  return key;
}

CandidateBook::Judged CandidateBook::judge(const Config& config) const {
  Judged out{template_.why_invalid(config), 0, {}};
  if (!out.why_not.empty()) return out;
  try {
    out.made = template_.instantiate(config);
    out.key = measuring::steps_hash(*out.made);
  } catch (const Error& e) {
    out.why_not = e.message;
  }
  return out;
}

bool CandidateBook::knows(const Config& config) const {
  return keys_.contains(config_hash(config));
}

std::optional<uint64_t> CandidateBook::enter(const Config& config, const Judged& judged) {
  auto [at, is_new] = keys_.try_emplace(config_hash(config));
  if (!is_new) return at->second;
  if (judged.why_not.empty()) return at->second = judged.key;
  ++rejections_[judged.why_not];
  return std::nullopt;
}

bool CandidateBook::take(uint64_t key) {
  if (!taken_.insert(key).second) return false;
  state_ += mix64(key);
  return true;
}

std::optional<Config> CandidateBook::next_seed() {
  while (next_seed_ < seeds_.size()) {
    const Config& c = seeds_[next_seed_++];
    std::optional<uint64_t> key = key_of(c);
    if (key && take(*key)) return c;
  }
  return std::nullopt;
}

void CandidateBook::list_what_is_left() {
  left_.emplace();
  std::unordered_set<uint64_t> listed;
  for (int b = 0; b < template_.num_branches(); ++b) {
    const std::vector<Knob>& knobs = template_.branch(b).knobs();
    std::vector<size_t> at(knobs.size(), 0);
    for (bool more = true; more;) {
      Config own;
      for (size_t i = 0; i < knobs.size(); ++i) own.values.push_back(knobs[i].values[at[i]]);
      Config c = template_.config_of_branch(b, own);
      std::optional<uint64_t> key = key_of(c);
      if (key && !taken(*key) && listed.insert(*key).second) left_->push_back(std::move(c));
      more = false;
      for (size_t i = 0; i < knobs.size() && !more; ++i) {
        more = ++at[i] < knobs[i].values.size();
        if (!more) at[i] = 0;
      }
    }
  }
}

std::optional<Config> CandidateBook::draw_new(Rng& rng) {
  bool small = template_.space_size() <= kListed;
  for (int i = 0; !left_ && i < (small ? kDrawsBeforeListing : kDraws); ++i) {
    Config c = moves_.random(rng);
    std::optional<uint64_t> key = key_of(c);
    if (key && take(*key)) return c;
  }
  if (!small) return std::nullopt;
  if (!left_) list_what_is_left();
  std::erase_if(*left_, [&](const Config& c) { return taken(*key_of(c)); });
  if (left_->empty()) return std::nullopt;
  Config c = rng.choose(*left_);
  take(*key_of(c));
  return c;
}

void CandidateBook::learn(const Config& config, double seconds) {
  const auto count = static_cast<size_t>(template_.num_branches());
  if (count == 1) return;
  branches_.resize(count);
  Branch& own = branches_[static_cast<size_t>(template_.branch_of(config))];
  ++own.trials;
  own.best = std::min(own.best, seconds);
  double best = std::numeric_limits<double>::infinity();
  for (const Branch& b : branches_) best = std::min(best, b.best);
  std::vector<double> weights;
  for (const Branch& b : branches_) {
    const bool judged = b.trials >= kTrialsOfAlternative;
    const double behind = b.best / best;
    weights.push_back(!judged || behind <= kNearlyAsGood ? 1 : behind <= kClearlyBehind ? 0.2 : 0);
  }
  moves_.set_weights(std::move(weights));
}

std::vector<RejectionCount> CandidateBook::rejections() const {
  std::vector<RejectionCount> out;
  for (const auto& [reason, count] : rejections_) out.push_back({reason, count});
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  return out;
}

}  // namespace heddle::search
