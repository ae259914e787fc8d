// What meta-templates of every target share. Public headers only: a user's own meta-template can do
// the same.
#pragma once

#include "common/accesses.h"
#include "common/costs.h"
#include "common/elements.h"
