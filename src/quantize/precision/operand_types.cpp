#include "quantize/precision/operand_types.h"

#include <algorithm>
#include <cmath>

#include "heddle/instruction/instruction.h"
#include "quantize/ranges.h"
#include "schedule/groups/machine_rates.h"

namespace heddle::quantize {
namespace {

constexpr double kMostOfE4M3 = 448;

/// Whether an instruction multiplies `a` by `b`.
bool has_product(const Target& target, DataType a, DataType b) {
  const DataType wide = a.is_float() ? f32 : i32;
  const auto is_here = [&](const MachineInstruction& x) {
    const InstructionForm* form = x.form({wide, a, b});
    return form && x.legal(target, *form);
  };
  const auto& dots = dot_instructions();
  const auto& matrices = matrix_instructions();
  return std::any_of(dots.begin(), dots.end(), is_here) ||
         std::any_of(matrices.begin(), matrices.end(),
                     [&](const MachineInstruction* m) { return is_here(*m); });
}

}  // namespace

std::vector<DataType> operand_types(const Target& target) {
  std::vector<DataType> types;
  for (const DataType t : {f16, bf16, f8e4m3}) {
    if (has_product(target, t, t)) types.push_back(t);
  }
  // With a zero point, values of one sign take all 256 numbers.
  if (has_product(target, u8, i8)) {
    types.push_back(u8);
  } else if (has_product(target, i8, i8)) {
    types.push_back(i8);
  }
  return types;
}

// The rates of a target are for elements of four and of two bytes; instructions for bytes take twice
// as many as those for two bytes.
double estimated_gain(const Candidate& candidate, DataType type, const Target& target) {
  const MachineRates rates = rates_of(target);
  const auto seconds = [&](DataType t) {
    const double flops = rates.flops_of(t.bytes()) * (t.bytes() == 1 ? 2 : 1),
                 bytes = candidate.operands * t.bytes() + candidate.results * f32.bytes();
    return std::max(candidate.flops / flops, rates.seconds_of(bytes, bytes));
  };
  return candidate.runs * (seconds(f32) - seconds(type));
}

std::optional<OperandType> typed(const Candidate& candidate, DataType type) {
  if (type.bits > 8) return OperandType{.type = type};
  if (!network::may_be(candidate.place, type)) return std::nullopt;
  if (!std::isfinite(candidate.low) || !std::isfinite(candidate.high)) return std::nullopt;
  if (type.is_float8()) {
    const double most = std::max(-candidate.low, candidate.high);
    return OperandType{.type = type,
                       .scale = most > 0 ? static_cast<float>(most / kMostOfE4M3) : 1};
  }
  const Scale s = scale_of({candidate.low, candidate.high}, type);
  return OperandType{.type = type, .scale = s.scale, .zero = static_cast<int>(s.zero)};
}

}  // namespace heddle::quantize
