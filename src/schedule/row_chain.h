// Products of products: which stages go through the caches a block of rows at a time.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/target/target.h"

namespace heddle {

/// Whether stage `reader` reads stage `s` at its own leading `rows` indices: for one of its rows it
/// needs just that row of `s`.
bool reads_own_rows(const ComputeDag& dag, int s, int reader, size_t rows);

/// The stages behind product `the anchor` (computed in `output stage`) whose rows are its own rows,
/// one to one:
///
///   scores[h, i, j] = sum(q[h, i, k] * key[h, j, k])        rows h, i
///   weights[h, i, j] = softmax over j
///   out[h, i, d] = sum(weights[h, i, j] * value[h, j, d])   rows h, i, so `the anchor`
///
/// Instead of all scores, then all weights, then all results, a block of rows can go through all of
/// them. It is worth it where another product is among them and the operands that blocks share fit
/// the second cache. Where all rows together fit it as well, reductions of rows must lie between
/// the products, and the rows must be enough for all threads.
class RowChain {
 public:
  RowChain(const ComputeDag& dag, const Target& target, int anchor, int output_stage);
  bool takes(int s) const { return worth_ && s < main_ && has_rows_[static_cast<size_t>(s)]; }

 private:
  bool has_rows(int s) const;
  /// Of all that `s` reads with other rows than its own, for one batch.
  int64_t shared_bytes(int s) const;

  const ComputeDag& dag_;
  int main_, output_stage_;
  size_t rows_;                 ///< leading axes that are rows: all but the last
  std::vector<char> has_rows_;  ///< by stage, up to `output stage`
  bool worth_ = false;
};

}  // namespace heddle
