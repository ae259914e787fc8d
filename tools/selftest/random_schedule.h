// Random configs of templates, and schedules of random primitives, each from one seed that
// reproduces it.
#pragma once

#include <vector>

#include "heddle/heddle.h"
#include "heddle/support/rng.h"

namespace heddle::selftest {

/// A random legal config, or the default one when none was found in a few draws.
Config random_config(const Template& t, Rng& rng);

/// A schedule of random primitives; steps that do not apply are skipped.
Schedule random_schedule(const std::vector<Tensor>& outputs, Rng& rng);

}  // namespace heddle::selftest
