// The products of a network that may be made of shorter numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/network/passes.h"
#include "network/passes/choice_list.h"
#include "network/passes/mover.h"

namespace heddle::network {

/// The sum in f32 of products of two reads of f32, f16 or bf16, of which the elements are used by several
/// results.
struct ProductPlace {
  int stage = -1;
  std::string place;             ///< "conv2d:1x64x56x56#2": the second one of this shape
  const Load* operands[2] = {};  ///< as the product reads them
  /// Which of the operands are weights: constants, with dimensions that only results run over. Their
  /// scales are those of these dimensions.
  int weights = -1;
};
/// Those of a graph. The stages `also` are such products at other sizes: at the least ones several
/// results may be one.
std::vector<ProductPlace> product_places(const ComputeDag& dag, const StageTypes& also = {});

/// Whether the product may be made of such numbers: those of 8 bits need weights.
bool may_be(const ProductPlace& product, DataType type);

/// The single read of a stage that moves elements, or pads them by zeros; null for all other stages.
const Load* moved_or_padded_read(const ComputeDag& dag, const Tensor& t);

/// The tensor whose elements the operand of a product is made of, behind stages that move or pad
/// them.
Tensor source_of(const ComputeDag& dag, Tensor t);

/// The dimensions of a weight that only results run over.
std::vector<size_t> channel_dimensions(const Operation& product, const Load& weight);

}  // namespace heddle::network
