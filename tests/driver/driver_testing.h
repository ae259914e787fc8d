// Shared by the tests of build() and kernels.
#pragma once

#include "heddle/runtime/thread_pool.h"
#include "lower/lower_testing.h"

namespace heddle::testing {

/// "" when the kernel built with `options` gives what the interpreter gives.
inline std::string wrong_when_run(const Schedule& s, const BuildOptions& options = {},
                                  double tolerance = 1e-4) {
  Kernel kernel = build(s, all_args(s.dag()), options);
  std::vector<NDArray> arrays = call_arrays(s.dag());
  kernel.call(arrays);
  return differs(s.dag(), arrays, tolerance);
}

/// The message of the Runtime error of a call; "" where it succeeds.
inline std::string complaint(const Kernel& kernel, const std::vector<NDArray>& arrays) {
  try {
    kernel.call(arrays);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Runtime);
    return e.message;
  }
  return "";
}

inline Tensor conv_block() {
  ops::Conv at;
  at.padding = {1, 1};
  Tensor x = placeholder({1, 8, 9, 11}, f32, "x"), w = constant_placeholder({12, 8, 3, 3});
  return ops::relu(ops::conv2d(x, w, at, placeholder({12}, f32, "b")));
}

inline std::vector<Tensor> usual_programs() {
  return {ops::matmul(placeholder({33, 40}), placeholder({40, 50})), conv_block(),
          ops::softmax(placeholder({20, 100})), ops::transpose(placeholder({30, 70}), {1, 0})};
}

}  // namespace heddle::testing
