// The types of which products may be made on a machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/network/passes.h"
#include "heddle/target/target.h"
#include "network/passes/product_places.h"

namespace heddle::quantize {

/// The types for whose products the target has an instruction: tf32, f16, bf16, f8e4m3, and u8 or i8
/// with weights of i8. They have no scales yet.
std::vector<OperandType> operand_types(const Target& target);

/// A product of a network, and what may become of it.
struct Candidate {
  network::ProductPlace place;
  std::string name;  ///< as in PassOptions::types
  double flops = 0;
  double runs = 1;                   ///< in a call: turns of the loop that computes it
  double operands = 0, results = 0;  ///< their elements
  Tensor source;  ///< the tensor that its operand of 8 bits is made of; null without weights
  /// The least and the largest value of `source` on the calls that choose; infinite where one is not
  /// finite.
  double low = 0, high = 0;
};

/// The seconds that the product gains in a type, by the rates of a machine for its arithmetic and its
/// operands.
double estimated_gain(const Candidate& candidate, const OperandType& type, const Target& target);

/// The type with the scale that the range of the candidate asks for; none where that has none.
std::optional<OperandType> typed(const Candidate& candidate, const OperandType& as);

}  // namespace heddle::quantize
