// CandidateBook: the legal configs of a template, those that were taken, and the reasons of
// refusals.
//
// Configs that differ only in knobs that no applied step uses are one candidate: the key is a hash
// of the steps they instantiate to.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "heddle/search/search_policy.h"
#include "measure/task/steps_hash.h"
#include "schedule/templates/config_moves.h"

namespace heddle::search {

class CandidateBook {
 public:
  explicit CandidateBook(const Template& t, std::vector<Config> seeds = {})
      : template_(t), moves_(t), seeds_(std::move(seeds)) {}

  const ConfigMoves& moves() const { return moves_; }

  /// The key of the steps of `config`. nullopt when it is not legal; the reason is counted once for
  /// each config. `made` receives the schedule when it had to be made.
  std::optional<uint64_t> key_of(const Config& config, std::optional<Schedule>* made = nullptr);

  /// What a config stands for, as far as the book is not needed. Calls at the same time are safe.
  struct Judged {
    std::string why_not;  ///< empty for a legal config, which has the rest
    uint64_t key = 0;
    std::optional<Schedule> made;
  };
  Judged judge(const Config& config) const;
  bool knows(const Config& config) const;
  /// The same as key_of, of a config that was judged.
  std::optional<uint64_t> enter(const Config& config, const Judged& judged);

  /// Marks a candidate as proposed or measured. Returns false when it was marked before.
  bool take(uint64_t key);
  bool taken(uint64_t key) const { return taken_.contains(key); }
  /// A hash of the set of taken candidates, independent of their order. Random draws are seeded
  /// with it, so that a resumed search continues as an uninterrupted one would.
  uint64_t state() const { return state_; }

  /// Takes the next seed that is legal and was not taken; nullopt when there are no more.
  std::optional<Config> next_seed();
  /// Takes a legal config that was not taken, drawn uniformly; nullopt when (almost) none is left.
  std::optional<Config> draw_new(Rng& rng);

  /// Learns from a measured time (infinity for a failure). Alternatives with worse times are drawn
  /// less often, and those with much worse times not at all.
  void learn(const Config& config, double seconds);

  /// The reasons of refusals, the most frequent first.
  std::vector<RejectionCount> rejections() const;

 private:
  void list_what_is_left();

  Template template_;
  ConfigMoves moves_;
  std::vector<Config> seeds_;
  size_t next_seed_ = 0;
  std::unordered_map<uint64_t, std::optional<uint64_t>> keys_;  ///< keys by hash of the config
  std::unordered_set<uint64_t> taken_;
  uint64_t state_ = 0;
  struct Branch {
    int trials = 0;
    double best = std::numeric_limits<double>::infinity();
  };
  std::vector<Branch> branches_;  ///< branches of a template of alternatives
  std::map<std::string, int> rejections_;
  std::optional<std::vector<Config>>
      left_;  ///< the remaining configs of a small space, once draws find few
};

}  // namespace heddle::search
