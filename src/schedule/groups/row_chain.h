// Chains of products: the stages that a block of rows passes through while it is in a cache.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/stage_group.h"
#include "heddle/target/target.h"
#include "schedule/steps/product_part.h"

namespace heddle {

/// Whether stage `reader` reads stage `s` at its own leading `rows` indices, so that each of its
/// rows needs only the same row of `s`.
bool reads_own_rows(const ComputeDag& dag, int s, int reader, size_t rows);

/// The stages before a product (the anchor, which is computed in the output stage) whose rows
/// correspond to its rows one to one:
///
///   scores[h, i, j] = sum(q[h, i, k] * key[h, j, k])        rows h, i
///   weights[h, i, j] = softmax over j
///   out[h, i, d] = sum(weights[h, i, j] * value[h, j, d])   rows h, i: the anchor
///
/// A block of rows can go through all of these stages, in place of computing all scores, then all
/// weights, then all results. This gains where another product is among them and the operands that
/// blocks share fit the second cache. Where all rows together fit it as well, reductions of rows
/// must be between the products, and there must be enough rows for all threads.
class RowChain {
 public:
  /// `stored` marks stages that are stored whole, and so belong to no chain; it may be empty.
  RowChain(const ComputeDag& dag, const Target& target, int anchor, int output_stage, Chains which,
           const std::vector<char>& stored = {});
  bool takes(int s) const { return taken_ && s < main_ && rows_known(s); }
  /// The product, with the stages after it, that stage `s` of the chain belongs to; else null.
  const StageGroup::Part* part_of(int s) const;

 private:
  bool has_rows(int s) const;
  /// Whether has_rows() was found to hold for `s`, which is one of the stages that were looked at.
  bool rows_known(int s) const {
    return s >= first_ && s <= output_stage_ && has_rows_[static_cast<size_t>(s - first_)] != 0;
  }
  void find_products();
  /// Bytes of all operands that `s` reads with other rows than its own, for one batch.
  int64_t shared_bytes(int s) const;

  const ComputeDag& dag_;
  int main_, output_stage_;
  int first_;                   ///< the first stage that is looked at
  size_t rows_;                 ///< leading axes that are rows: all but the last
  std::vector<char> has_rows_;  ///< one for each stage from the first to the output stage
  std::vector<ProductPart> products_;
  bool taken_ = false;
};

}  // namespace heddle
