// Helpers that the meta-templates of every target share. They use public headers only, as a user's
// own meta-template can.
#pragma once

#include "common/accesses.h"
#include "common/costs.h"
#include "common/elements.h"
