// Recognises the weighted sum of a softmax over scores of two operands (attention), by what its
// stages read:
//
//   products[b.., i, j] = sum over e of query[b.., i, e] * key[b.., j, e]
//   highest[b.., i]     = max over j of score(products[b.., i, j], b.., i, j)
//   total[b.., i]       = sum over j of exp(score - highest)
//   weighted[b.., i, f] = sum over j of exp(score - highest) [/ total] * value[b.., j, f]
//
// Scores may be scaled and masked in any way. Stages between these, element by element, are looked
// through; so are transpositions of the operands. Weights are divided by their total before the sum
// or after it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// The stages of softmax(Q K^T * s + mask) V in a graph, as indices; see find_attention.
struct Attention {
  int products = -1, highest = -1, weighted = -1;
  int total = -1;  ///< -1: nothing adds the weights up
  /// The only reader of the weighted sum and of the total, where the division comes after the sum;
  /// otherwise -1.
  int reader = -1;
  /// All stages that only this chain reads: products, highest, total, and the stages between them.
  std::vector<int> fused;
  std::vector<int> outer;  ///< stages from total to reader, which are element-wise

  // Positions among the axes of the weighted sum.
  std::vector<int> batch;
  int row = -1, col = -1;
  bool other_rows = false;  ///< another axis could be the row as well: queries of grouped heads
  int64_t rows = 1, keys = 1, depth = 1, cols = 1, batches = 1;  ///< at the largest sizes
  Expr row_extent, key_extent;  ///< numbers of rows and keys, which may depend on sizes

  // The following are in terms of the axes of the weighted sum, of its reduce axis (the key), and
  // of `depth_var`.
  Expr query, key, value;  ///< loads
  Expr score;              ///< the score, in terms of the value `product` of the stage of products
  /// The number of the first keys that a row attends to, as far as the chain says. It does not
  /// decrease from row to row, and may read what is the same for all rows and keys. Null where a row
  /// attends to all keys.
  Expr reach;
  Expr factor;  ///< factor of the weights, in terms of the value `sum` of total; null: none
  Var depth_var, product, sum;
  DataType type;  ///< type of the operands, and of the weights in the product
  /// For each axis of total its position among the axes of the weighted sum; -1 for an axis of
  /// extent 1.
  std::vector<int> total_axes;
  // Whether the elements of an operand are adjacent along the axis that its product sums over.
  bool query_along_depth = true, key_along_depth = true, value_along_keys = false;
};

/// Finds the chain whose weighted sum is `stage` of the graph, with axis `row` of it as the row, or the longest
/// axis that can be one where `row` is -1. All products must be of f16 or bf16
/// and accumulate in f32, and some row must attend to three keys or more. A single row must not
/// have a mask in memory.
std::optional<Attention> find_attention(const ComputeDag& dag, int stage, int row = -1);

}  // namespace heddle
