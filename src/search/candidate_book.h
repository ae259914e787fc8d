// CandidateBook: which configs of a template are legal, which were taken, and what was refused.
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
#include "measure/steps_hash.h"
#include "schedule/config_moves.h"

namespace heddle {

class CandidateBook {
 public:
  explicit CandidateBook(const Template& t, std::vector<Config> seeds = {})
      : template_(t), moves_(t), seeds_(std::move(seeds)) {}

  const ConfigMoves& moves() const { return moves_; }

  /// The key of what `config` instantiates to; nullopt when it is not legal, which is counted under
  /// its reason once a config. `made` receives the schedule when it had to be made now.
  std::optional<uint64_t> key_of(const Config& config, std::optional<Schedule>* made = nullptr);

  /// Marks a candidate as proposed or measured; false when it was.
  bool take(uint64_t key);
  bool taken(uint64_t key) const { return taken_.contains(key); }
  /// Depends on the set of taken candidates only, not on their order: what random draws are seeded
  /// with, so that a resumed search goes on as the one that was cut would have.
  uint64_t state() const { return state_; }

  /// Takes the next seed that is legal and was not taken; nullopt when there are no more.
  std::optional<Config> next_seed();
  /// Takes a legal config that was not taken, uniformly over configs; nullopt when (next to) none
  /// is left.
  std::optional<Config> draw_new(Rng& rng);

  /// Takes a measured time in (infinity for a failure): alternatives that fall behind are drawn
  /// less often, and those that are clearly behind not at all.
  void learn(const Config& config, double seconds);

  /// Most frequent first.
  std::vector<RejectionCount> rejections() const;

 private:
  void list_what_is_left();

  Template template_;
  ConfigMoves moves_;
  std::vector<Config> seeds_;
  size_t next_seed_ = 0;
  std::unordered_map<uint64_t, std::optional<uint64_t>> keys_;  ///< by hash of the config
  std::unordered_set<uint64_t> taken_;
  uint64_t state_ = 0;
  struct Branch {
    int trials = 0;
    double best = std::numeric_limits<double>::infinity();
  };
  std::vector<Branch> branches_;  ///< of a template of alternatives
  std::map<std::string, int> rejections_;
  std::optional<std::vector<Config>> left_;  ///< of a small space, once draws find little
};

}  // namespace heddle
