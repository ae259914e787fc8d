// The shape of one matrix product, shared by the peers.
#pragma once

#include <cstdint>

namespace heddle::peers {

// C (m x n) = op(A) (m x k) * op(B) (k x n), all row-major and dense. With trans_a, A is stored
// k x m; with trans_b, B is stored n x k.
struct GemmShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  bool trans_a = false;
  bool trans_b = false;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  int64_t lda() const { return trans_a ? m : k; }
  int64_t ldb() const { return trans_b ? k : n; }
};

}  // namespace heddle::peers
