// The time that a measurer spends, by activity.
#pragma once

#include <map>
#include <string>

#include "heddle/runtime/timer.h"

namespace heddle::measuring {

/// Seconds by name.
using TimeSpent = std::map<std::string, double>;

/// Adds the time until its end to a name, without the time that was added to others in between.
class Lap {
 public:
  Lap(TimeSpent& spent, const char* name) : spent_(spent), name_(name), others_(total()) {}
  ~Lap() { spent_[name_] += timer_.elapsed_s() - (total() - others_); }
  Lap(const Lap&) = delete;
  Lap& operator=(const Lap&) = delete;

 private:
  double total() const {
    double sum = 0;
    for (const auto& [name, seconds] : spent_) sum += seconds;
    return sum;
  }
  TimeSpent& spent_;
  const char* name_;
  double others_;
  Timer timer_;
};

}  // namespace heddle::measuring
