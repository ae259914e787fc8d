// The loop over drawn networks and machines that property tests share. HEDDLE_PROPERTY_COUNT and
// HEDDLE_PROPERTY_SEED as in tests/property.
#pragma once

#include <iostream>

#include "environment.h"
#include "heddle/support/function_ref.h"
#include "network/static_legality.h"
#include "network/typed_networks.h"

namespace heddle::testing {

/// A machine of each kind that rules tell apart.
inline std::vector<Target> every_target() {
  std::vector<Target> targets;
  for (const char* name : kStaticTargets) targets.push_back(Target::parse(name));
  return targets;
}

/// What is drawn: so many networks of a type, each for every target.
struct NetworkDraws {
  DataType type = f32;
  std::vector<Target> targets = every_target();
  int64_t count = 8;
  Sizes sizes = Sizes::Small;
};

/// Expects that `what_is_wrong` finds nothing in any of them. CPUs have 1, 2 or 16 cores.
inline void expect_nothing_wrong(
    const NetworkDraws& draws,
    FunctionRef<std::string(const std::vector<Tensor>&, const Target&)> what_is_wrong) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", draws.count),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  int64_t wrong = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    for (Target target : draws.targets) {
      Rng rng(static_cast<uint64_t>(seed));
      const std::vector<Tensor> outputs = TypedNetworkDrawer(rng, draws.type, draws.sizes).run();
      if (!target.is_cuda()) target.cores = rng.choose<int>({1, 2, 16});
      const std::string what = what_is_wrong(outputs, target);
      if (what.empty()) continue;
      ++wrong;
      ADD_FAILURE() << what << "\n  " << to_string(target) << ", " << to_string(draws.type)
                    << ", HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" << seed;
    }
  }
  std::cout << count << " networks on " << draws.targets.size() << " machines, " << wrong
            << " wrong\n";
}

}  // namespace heddle::testing
