// Races: entrants take turns in rounds, so that what disturbs the machine disturbs all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "heddle/support/function_ref.h"
#include "runtime/race/clearly_faster.h"

namespace heddle::racing {

/// In place of seconds: the entrant failed, and leaves the race.
inline constexpr double kFailed = std::numeric_limits<double>::infinity();
/// In place of seconds: the race is over. Its round does not count.
inline constexpr double kAbandoned = std::numeric_limits<double>::quiet_NaN();

enum class Out { No, Slower, Failed };
enum class Summary { Median, Least };
/// What the time of an entrant is compared with: that of entrant 0, the default, or the best time.
enum class Against { Default, Leader };

struct Rules {
  int most_rounds = std::numeric_limits<int>::max();
  int fewest_rounds = 0;        ///< made although `Ends::enough` says that the time is up
  std::vector<int> looks = {};  ///< rounds after which the race is evaluated; empty: after each
  /// At a look an entrant leaves that takes this many times as long.
  double hopeless = std::numeric_limits<double>::infinity();
  Against against = Against::Default;
  Summary summary = Summary::Median;
  size_t fewest_racing = 2;  ///< with fewer entrants there is nothing to race
  uint64_t seed = 0;         ///< of the order of turns, which is drawn for each round
};

/// When a race ends before its last round. The clock is the caller's.
struct Ends {
  std::function<bool()> over = {};  ///< asked before each turn; a round that it cuts does not count
  std::function<bool(int)> enough = {};   ///< asked before each round: are these rounds enough?
  std::function<bool(int)> decided = {};  ///< asked at each look, after this many rounds
};

/// The entrants of a race and their times. Those that race have a time of each round.
class Field {
 public:
  Field(size_t entrants, const Rules& rules)
      : rules_(rules), seconds_(entrants), out_(entrants, Out::No) {}

  const Rules& rules() const { return rules_; }
  const std::vector<double>& seconds(size_t entrant) const { return seconds_[entrant]; }
  double time(size_t entrant) const;  ///< infinity without samples
  std::vector<double> times() const;  ///< of all entrants
  size_t leader() const;              ///< of those that race; 0 where there is none
  Out out(size_t entrant) const { return out_[entrant]; }
  std::vector<size_t> racing() const;
  void add(size_t entrant, double seconds);
  void drop(size_t entrant, Out why) { out_[entrant] = why; }
  void drop_hopeless();
  /// As winner_of. An entrant that is out does not win.
  int winner(double luck = kRaceLuck) const;

 private:
  Rules rules_;
  std::vector<std::vector<double>> seconds_;
  std::vector<Out> out_;
};

/// The fastest of those that are clearly faster than the first one, else the first one. One without
/// samples does not work: it does not win, and the others win against it. -1 when none works.
int winner_of(std::span<const std::vector<double>> seconds, double luck = kRaceLuck);

/// Races fields of the same rules together. A call takes an entrant of each field and returns their
/// seconds. In a round each entrant that races has one turn; a field with fewer entrants than the
/// round has calls runs its reference (`Rules::against`) in the others, which do not count.
/// Returns the number of rounds.
int run(std::span<Field> fields,
        FunctionRef<std::vector<double>(std::span<const size_t> entrants)> call, const Ends& ends);

/// The same for one field.
int run(Field& field, FunctionRef<double(size_t entrant)> sample, const Ends& ends);

}  // namespace heddle::racing
