#include "quantize/precision/operand_types.h"

#include <algorithm>
#include <cmath>

#include "quantize/ranges.h"
#include "schedule/groups/machine_rates.h"

namespace heddle::quantize {
namespace {

constexpr double kMostOfE4M3 = 448;

}  // namespace

std::vector<OperandType> operand_types(const Target& target) {
  std::vector<OperandType> types;
  for (const DataType t : {f32, f16, bf16, f8e4m3}) {
    if (multiplies(target, t, t)) types.push_back({.type = t, .tf32 = t == f32});
  }
  // With a zero point, values of one sign take all 256 numbers.
  if (multiplies(target, u8, i8)) {
    types.push_back({.type = u8});
  } else if (multiplies(target, i8, i8)) {
    types.push_back({.type = i8});
  }
  return types;
}

double estimated_gain(const Candidate& candidate, const OperandType& type, const Target& target) {
  const MachineRates rates = rates_of(target);
  const auto seconds = [&](const OperandType& as) {
    const DataType t = as.type;
    const DataType other = t == u8 ? i8 : t;
    const double flops = product_flops(rates, target, t, other, as.tf32),
                 bytes = candidate.operands * t.bytes() + candidate.results * f32.bytes();
    return std::max(candidate.flops / flops, rates.seconds_of(bytes, bytes));
  };
  return candidate.runs * (seconds({}) - seconds(type));
}

std::optional<OperandType> typed(const Candidate& candidate, const OperandType& as) {
  const DataType type = as.type;
  if (type.bits > 8) return as;
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
