#include "heuristics/collect/drawn.h"

#include <utility>

#include "support/hashing/hash.h"

namespace heddle::learning {

Drawn with_question(const Heuristic& heuristic, DrawnProblem problem, std::size_t question) {
  if (!heuristic.measure && question > 0) problem.id += "#" + std::to_string(question);
  return {std::move(problem), question};
}

Drawn draw_problem(const Heuristic& heuristic, const Target& target, std::uint64_t seed,
                   std::uint64_t i) {
  Rng rng(hash_combine(hash_combine(hash_string(heuristic.name), seed), i));
  DrawnProblem problem = heuristic.draw(rng, target);
  const auto question = static_cast<std::size_t>(rng.uniform_int(0, kMostQuestions - 1));
  return with_question(heuristic, std::move(problem), question);
}

}  // namespace heddle::learning
