// Products, and the stages that follow them element by element.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::network {

/// Whether one stage alone reads `s`, which has one result, is no output and runs at every call.
bool is_private(const ComputeDag& dag, int s);

/// Whether stage `reader` reads `s` element by element and in no other way.
bool follows(const ComputeDag& dag, int reader, int s);

/// Whether `s` reads `on`, directly or through others, or is `on`.
bool depends_on(const ComputeDag& dag, int s, int on);

/// The stages from a product (or convolution) to `s`, each private and following the one before;
/// empty where there is no such product, or none within 128 stages.
std::vector<int> chain_to(const ComputeDag& dag, int s);

}  // namespace heddle::network
