#include "network/race/duel.h"

namespace heddle::network {

NetworkTimes duel(FunctionRef<double(size_t)> call, int most_rounds, uint64_t seed,
                  const racing::Ends& ends) {
  // The looks are few, because each may be won by luck.
  racing::Field field(2, {.most_rounds = most_rounds, .looks = {12, 24, 48}, .seed = seed});
  racing::Ends decided = ends;
  decided.decided = [&](int) { return field.winner() == 1; };
  NetworkTimes times;
  times.verdict = RaceResult::NotProven;
  times.rounds = racing::run(field, call, decided);
  if (times.rounds == 0) return times;
  times.static_seconds = field.time(0);
  times.best_seconds = field.time(1);
  if (field.winner() == 1) times.verdict = RaceResult::Faster;
  return times;
}

}  // namespace heddle::network
