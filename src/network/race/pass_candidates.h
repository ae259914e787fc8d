// The choices about a network that can be tried on the whole of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// One change of the options.
struct Change {
  const PassDescription* pass = nullptr;  ///< null: the choice of this name
  std::string name;
  bool on = false;  ///< the setting to try

  PassOptions applied_to(PassOptions options) const;
};

struct Candidate {
  Change change;
  ChoiceTrial trial;
  int64_t nodes = 0;  ///< that it changes, and that are compiled to try it
};

/// All candidates, those with the largest estimated gain first (ChoiceTrial::estimated_gain).
/// `node_seconds` are those of the network's nodes in its calls. Estimating takes at most `seconds`;
/// the rest have none.
std::vector<Candidate> pass_candidates(const Network& network, std::span<const double> node_seconds,
                                       double seconds, const TuneClock& clock);

}  // namespace heddle::network
