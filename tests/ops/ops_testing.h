// Operators are compared with plain loops: each test states an element of the result in terms of
// elements of the inputs. Each declaration runs in every way that Heddle has: by the interpreter,
// compiled for this CPU, and as CUDA kernels in the emulator.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heddle/codegen/interpreter.h"
#include "heddle/ops/ops.h"

namespace heddle {

using Dims = std::vector<int64_t>;

/// An input: its placeholder and its contents.
struct Input {
  Tensor tensor;
  NDArray array;

  double at(const Dims& index) const {
    int64_t position = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      EXPECT_TRUE(index[d] >= 0 && index[d] < array.shape()[d]) << "the test reads out of bounds";
      position = position * array.shape()[d] + index[d];
    }
    return array.get(position);
  }
  template <class... I>
  double operator()(I... index) const {
    return at({static_cast<int64_t>(index)...});
  }
  /// The element, or `outside` where any index is out of range.
  double or_else(double outside, const Dims& index) const {
    for (size_t d = 0; d < index.size(); ++d)
      if (index[d] < 0 || index[d] >= array.shape()[d]) return outside;
    return at(index);
  }
  operator const Tensor&() const { return tensor; }  // NOLINT(google-explicit-constructor)
};

inline Input input_of(const NDArray& array, const std::string& name = "x") {
  return {placeholder(Shape(array.shape().begin(), array.shape().end()), array.dtype(), name),
          array};
}
inline Input input(const Dims& dims, DataType dtype = f32, uint64_t seed = 1, double lo = -2,
                   double hi = 2) {
  const bool numbers = !dtype.is_bool();
  if (dtype.is_uint()) lo = 0, hi = 9;
  return input_of(
      numbers ? NDArray::random(dims, dtype, seed, lo, hi) : NDArray::random(dims, dtype, seed),
      "x" + std::to_string(seed));
}

inline double tolerance_of(DataType t) {
  if (t == bf16) return 8e-3;
  if (t == f16) return 1e-3;
  return t == f64 ? 1e-12 : t == f32 ? 2e-6 : 0;
}

/// What a declaration gives in one of the ways to run it.
struct WayToRun {
  std::string name;  ///< "interpreted", "compiled", "emulated"
  NDArray result;
  double slack = 1;  ///< how many times the tolerance it may be off: sums in another order
};
/// The interpreter's result, and those of the static choice for this CPU and for a GPU. Inputs that
/// the result does not read are left out.
std::vector<WayToRun> run_every_way(const Tensor& result, const std::vector<Input>& inputs);
WayToRun run_interpreted(const Tensor& result, const std::vector<Input>& inputs);

/// `expected(index)` for every element of one way's result. `tolerance`: relative and absolute; -1:
/// that of the type.
template <class F>
void expect_result(const Tensor& result, const WayToRun& way, F expected, double tolerance = -1) {
  const Dims dims = result.extents();
  ASSERT_EQ(way.result.shape(), dims);
  const double bound = (tolerance < 0 ? tolerance_of(result.dtype()) : tolerance) * way.slack;
  Dims index(dims.size(), 0);
  for (int64_t position = 0; position < way.result.size(); ++position) {
    const double want = expected(index), is = way.result.get(position);
    const bool close = want == is || (std::isnan(want) && std::isnan(is)) ||
                       std::abs(want - is) <= bound * std::max(1.0, std::abs(want));
    ASSERT_TRUE(close) << result.name() << ", " << way.name << ", at "
                       << testing::PrintToString(index) << " is " << is << ", expected " << want;
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

/// The same of `result`, however it is run.
template <class F>
void expect_elements(const Tensor& result, const std::vector<Input>& inputs, F expected,
                     double tolerance = -1) {
  for (const WayToRun& way : run_every_way(result, inputs))
    expect_result(result, way, expected, tolerance);
}

/// What `f` throws, as "message | help"; the place must be in the test that calls.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << e.what();
    EXPECT_TRUE(e.where.known()) << e.what();
    return e.message + " | " + e.help;
  }
  return "no error";
}

}  // namespace heddle
