// Random configs of templates, and schedules of random primitives, each from one seed that
// reproduces it.
#pragma once

#include "heddle/heddle.h"
#include "heddle/support/rng.h"

namespace heddle::selftest {

/// A random legal config, or the default one when none was found in a few draws.
Config random_config(const Template& t, Rng& rng);

/// The schedule with random primitives behind its steps; those that do not apply are skipped.
Schedule random_schedule(Schedule from, Rng& rng);

}  // namespace heddle::selftest
