// Columns by name, and magnitudes back from their logarithms.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "heddle/cost_model/features.h"
#include "heddle/heddle.h"
#include "heddle/ops/ops.h"

namespace heddle::testing {

class Row {
 public:
  explicit Row(Features row) : row_(std::move(row)) {}
  Row(const Schedule& s, const std::vector<Tensor>& args, const Target& target)
      : row_(schedule_features(s.for_target(target), args)) {}

  const Features& raw() const { return row_; }
  /// The column as it is.
  double plain(const std::string& name) const {
    const auto& columns = feature_columns();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].name == name) return row_.at(i);
    }
    ADD_FAILURE() << "no column " << name;
    return NAN;
  }
  /// The magnitude of a column that holds log2(1 + x).
  double count(const std::string& name) const {
    double x = std::exp2(plain(name)) - 1;
    // Single precision: what should be a small integer is one.
    return std::abs(x - std::round(x)) < 1e-4 * std::max(1.0, x) ? std::round(x) : x;
  }

 private:
  Features row_;
};

/// A small machine whose figures are easy to reckon with: 8 lanes of f32, 16 registers, 2 cores.
inline Target small_target() {
  Target t;
  t.vector_bytes = 32;
  t.vector_registers = 16;
  t.fma_units = 2;
  t.cores = 2;
  t.l1d_bytes = 32 << 10;
  t.l2_bytes = 512 << 10;
  t.l3_bytes = 8 << 20;
  return t;
}

}  // namespace heddle::testing
