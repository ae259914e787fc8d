// Draws declarations: a family, its sizes and types, and what stands around it. Seeds are written
// down in reports, so a family draws its numbers in a fixed order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/support/rng.h"
#include "selftest/random_program.h"

namespace heddle::selftest {

class Drawer {
 public:
  explicit Drawer(Rng& rng) : rng_(rng) {}

  /// A program of any family.
  RandomProgram run();

 private:
  // ---- draw_products.cpp
  void contraction();
  void long_sum();
  void matrix_unit();
  void whole_rows();
  void attention();
  void decoding();
  void layers();
  // ---- draw_images.cpp
  void convolution();
  void separable();
  void pooling();
  void affine();
  // ---- draw_rows.cpp
  void reduction();
  void normalisation();
  void scan();
  void tuple();
  // ---- draw_elements.cpp
  void movement();
  void chain();
  void rows_at_places();

  // ---- what the families are drawn with
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  bool flip() { return pick(0, 1) == 1; }
  template <class T>
  const T& one_of(const std::vector<T>& v) {
    return v[pick(0, static_cast<int64_t>(v.size()) - 1)];
  }
  int64_t extent();
  std::vector<int64_t> small_shape(int max_rank = 4);
  DataType float_type();
  /// Declares an input and adds it to the program's text.
  Tensor input(std::vector<int64_t> shape, DataType t, const std::string& name,
               bool constant = false);
  /// Nothing, or element-wise work on the result.
  Tensor epilogue(Tensor x);
  /// The program is complete: `what` it is, and its results.
  void done(const std::string& what, std::vector<Tensor> outputs);

  Rng& rng_;
  RandomProgram p_;
};

}  // namespace heddle::selftest
