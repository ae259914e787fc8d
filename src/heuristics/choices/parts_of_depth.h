// The parts into which products on a GPU cut their reduction: the parameter "parts", and the knobs
// "reduction" and "k_part" that it stands for.
#pragma once

#include "heddle/heuristics/heuristic.h"

namespace heddle {

std::string why_no_parts(const ParameterSet& choice, const Situation& p);
/// `depth`: the feature of the extent that is cut.
Choice parts_knobs(const ParameterSet& choice, const Situation& p, std::string_view depth);

}  // namespace heddle
