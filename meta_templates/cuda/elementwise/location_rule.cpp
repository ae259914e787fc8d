#include "cuda/elementwise/location_rule.h"

namespace heddle::meta {
namespace {

// Reads of an element from which on storing it is cheaper than computing it again: reads by
// contractions, whose tiles are read repeatedly from shared memory, and reads by anything else.
constexpr double kMostContractionReads = 32, kMostOtherReads = 2;

bool cheap_to_repeat(const LocationProblem& p) {
  if (p.contraction_reads > 0) return p.contraction_reads <= kMostContractionReads;
  return p.other_reads <= kMostOtherReads;
}

}  // namespace

NamedFeatures LocationProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  const bool in_registers = !places.empty() && places.back().in_registers;
  return {{"places", number(places.size())},
          {"last_place_in_registers", number(in_registers)},
          {"may_inline", number(may_inline)},
          {"contraction_reads", contraction_reads},
          {"other_reads", other_reads},
          {"tiny", number(tiny)},
          {"fetched_by_tiles", number(fetched_by_tiles)},
          {"moves_vectors", number(moves_vectors)},
          {"makes_vectors", number(makes_vectors)}};
}

Choice location_rule(const LocationProblem& p) {
  int64_t chosen = 0;
  const char* reason = "computed once for all readers";
  for (const LocationProblem::Place& place : p.places) {
    if (place.in_registers) {
      chosen = place.location;
      reason = "computed where it is read, in registers";
    } else if (p.may_inline) {
      chosen = -1;
      reason = "computed again by each pass over the row";
    }
  }
  if (chosen == 0 && p.makes_vectors) {
    reason = "its readers load vectors of it";
  } else if (chosen == 0 && p.may_inline) {
    if (cheap_to_repeat(p)) {
      chosen = -1;
      reason = "cheaper to compute again than to store and read";
    } else if (p.tiny && p.contraction_reads == 0) {
      chosen = -1;
      reason = "less than a kernel takes to start";
    } else if (p.moves_vectors) {
      chosen = -1;
      reason = "its readers load vectors of what it moves";
    } else if (p.fetched_by_tiles) {
      chosen = -1;
      reason = "the tiles of its readers are fetched with zeros around them";
    }
  }
  return Choice().set("location", chosen, reason);
}

}  // namespace heddle::meta
