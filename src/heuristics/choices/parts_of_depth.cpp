#include "heuristics/choices/parts_of_depth.h"

namespace heddle {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The lengths of parts as the rules cut them. For threads they are multiples of 32 steps
// (complex_reduction_rule.cpp). For tensor cores they are multiples of mma_k, or of several of
// these where a part is long (tensor_core_rule.cpp).
std::int64_t part_of(std::int64_t depth, std::int64_t parts, bool tensor_cores,
                     std::int64_t mma_k) {
  const std::int64_t n = ceil_div(depth, parts);
  if (!tensor_cores) return ceil_div(n, 32) * 32;
  std::int64_t unit = mma_k;
  while (unit < 8 * mma_k && n >= 16 * unit) unit *= 2;
  const std::int64_t to = n % unit == 0 || n < 8 * mma_k ? mma_k : unit;
  return ceil_div(n, to) * to;
}

}  // namespace

std::string why_no_parts(const ParameterSet& choice, const Situation& p) {
  if (choice.get("parts", 1) == 1) return "";
  return p.rule.has("k_part") ? "" : "the reduction cannot be cut";
}

Choice parts_knobs(const ParameterSet& choice, const Situation& p, std::string_view depth) {
  Choice knobs;
  if (!choice.has("parts")) return knobs;
  const std::int64_t parts = choice.get("parts", 1);
  knobs.set("reduction", parts > 1 ? 1 : 0);
  if (parts == 1) return knobs;
  const bool tensor_cores = depth == "depth";
  const double bytes = p.features["operand_bytes"];
  const auto mma_k = static_cast<std::int64_t>(tensor_cores ? 8 * (4 / bytes) : 0);
  knobs.set("k_part",
            part_of(static_cast<std::int64_t>(p.features[depth]), parts, tensor_cores, mma_k));
  return knobs;
}

}  // namespace heddle
