// The problems that a seed draws for a heuristic.
#pragma once

#include <cstdint>

#include "heddle/heuristics/heuristic.h"

namespace heddle::learning {

/// A declaration may ask about several stages. At most so many of them are problems.
inline constexpr std::size_t kMostQuestions = 3;

/// A problem, and the stage of it that is asked about.
struct Drawn {
  DrawnProblem problem;  ///< its id names the question
  std::size_t question = 0;
};

/// The `i`-th problem of a seed. It does not depend on the others.
Drawn draw_problem(const Heuristic& heuristic, const Target& target, std::uint64_t seed,
                   std::uint64_t i);

/// The problem with its question in its id.
Drawn with_question(const Heuristic& heuristic, DrawnProblem problem, std::size_t question);

}  // namespace heddle::learning
