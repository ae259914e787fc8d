// Helpers of the tests of shape families: declarations over dimensions, and calls at a size whose
// arrays border on protected pages.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/llvm_util.h"
#include "heddle/ir/print.h"
#include "lower/lower_testing.h"

namespace heddle::testing {

/// A declaration over one dimension, of 1 to 300 elements unless it says otherwise.
struct Family {
  std::string name;
  Dim n;
  Tensor result;
};

inline Dim usual_dim() { return dim("n", 1, 300); }

inline Family elementwise_family(const Dim& n = usual_dim()) {
  const Tensor x = placeholder({n}, f32, "x");
  return {"elementwise", n,
          compute({n}, [&](Axis i) { return exp(x(i)) * 2.f + cast(f32, i); }, "y")};
}

inline Tensor relu_of(const Tensor& x) {
  return compute(x.shape(), [&](const std::vector<Axis>& i) { return max(x(i), 0.f); }, "relu");
}

inline Family rows_family(const Dim& n = usual_dim()) {
  const Tensor x = placeholder({n, 37}, f32, "x"), b = placeholder({37}, f32, "b");
  return {"rows", n,
          relu_of(compute({n, 37}, [&](Axis i, Axis j) { return x(i, j) + b(j); }, "sum"))};
}

inline Tensor product(const Tensor& a, const Tensor& b, const Expr& depth) {
  const Axis k = reduce_axis(depth, "k");
  return compute(
      {a.shape()[0], b.shape()[1]}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); },
      "product");
}

inline Family matmul_family(const Dim& n = usual_dim(), int64_t k = 24, int64_t m = 40) {
  return {"matmul", n,
          product(placeholder({n, k}, f32, "a"), constant_placeholder({k, m}, f32, "b"), k)};
}

inline Family chain_family(const Dim& n = usual_dim()) {
  const Tensor a = placeholder({n, 20}, f32, "a"), b = placeholder({20, 33}, f32, "b"),
               c = placeholder({33, 18}, f32, "c");
  return {"chain", n, relu_of(product(relu_of(product(a, b, 20)), c, 33))};
}

/// A softmax along the second dimension of x.
inline Tensor softmax_of(const Tensor& x) {
  const Expr rows = x.shape()[0], cols = x.shape()[1];
  const Axis j = reduce_axis(cols, "j"), k = reduce_axis(cols, "k");
  const Tensor most = compute({rows}, [&](Axis i) { return max(x(i, j), j); }, "max");
  const Tensor power =
      compute({rows, cols}, [&](Axis i, Axis c) { return exp(x(i, c) - most(i)); }, "exp");
  const Tensor total = compute({rows}, [&](Axis i) { return sum(power(i, k), k); }, "total");
  return compute({rows, cols}, [&](Axis i, Axis c) { return power(i, c) / total(i); }, "softmax");
}

inline Family softmax_family(const Dim& n = usual_dim(), int64_t cols = 50) {
  return {"softmax", n, softmax_of(placeholder({n, cols}, f32, "x"))};
}

inline Family row_sums_family(const Dim& n = usual_dim()) {
  const Tensor x = placeholder({n, 70}, f32, "x");
  const Axis j = reduce_axis(70, "j");
  return {"row_sums", n, compute({n}, [&](Axis i) { return sum(x(i, j), j); }, "sums")};
}

/// A convolution with padding, over a batch.
inline Family conv_family(const Dim& n = usual_dim(), int64_t c = 3, int64_t k = 20,
                          int64_t size = 6) {
  const Tensor x = placeholder({n, c, size, size}, f32, "x"),
               w = constant_placeholder({k, c, 3, 3}, f32, "w");
  const Tensor padded = compute(
      {n, c, size + 2, size + 2},
      [&](Axis b, Axis ch, Axis y, Axis z) {
        return select(y >= 1 && y <= size && z >= 1 && z <= size, x(b, ch, y - 1, z - 1), 0.f);
      },
      "padded");
  const Axis rc = reduce_axis(c, "rc"), ry = reduce_axis(3, "ry"), rx = reduce_axis(3, "rx");
  return {"conv", n,
          relu_of(compute(
              {n, k, size, size},
              [&](Axis b, Axis o, Axis y, Axis z) {
                return sum(padded(b, rc, y + ry, z + rx) * w(o, rc, ry, rx), {rc, ry, rx});
              },
              "conv"))};
}

/// Values that depend on the size itself.
inline Family scaled_family(const Dim& n = usual_dim()) {
  const Tensor x = placeholder({n, 9}, f32, "x");
  return {"scaled", n,
          compute({n, 9}, [&](Axis i, Axis j) { return x(i, j) / cast(f32, Expr(n)); }, "y")};
}

/// The static choice at one size for so many cores.
inline Schedule choice_for(int cores, const Tensor& result, const std::vector<SizeValue>& at) {
  Target target = Target::host();
  target.cores = cores;
  return create_schedule(at_sizes({result}, at).outputs, target);
}

/// Arrays for a call whose last (or first) bytes border on protected pages.
class GuardedArrays {
 public:
  /// Copies of `arrays`.
  explicit GuardedArrays(const std::vector<NDArray>& arrays, bool at_front = false) {
    for (const NDArray& a : arrays) {
      const auto bytes = static_cast<size_t>(a.bytes());
      memory_.push_back(std::make_unique<GuardedArray<char>>(bytes, at_front));
      std::memcpy(memory_.back()->data(), a.data(), bytes);
      list.push_back(NDArray::wrap(memory_.back()->data(), a.extents(), a.dtype()));
    }
  }
  std::vector<NDArray> list;

 private:
  std::vector<std::unique_ptr<GuardedArray<char>>> memory_;
};

/// "" when `kernel`, for all sizes, gives what the interpreter gives at sizes `at`.
inline std::string wrong_at(const Kernel& kernel, const Tensor& result,
                            const std::vector<SizeValue>& at, bool at_front = false) {
  const ComputeDag dag(at_sizes({result}, at).outputs);
  const GuardedArrays arrays(call_arrays(dag), at_front);
  kernel.call(arrays.list);
  const std::string d = differs(dag, arrays.list, 1e-4);
  if (d.empty()) return "";
  std::string text;
  for (const SizeValue& v : at) text += v.size->name + " = " + std::to_string(v.value) + ": ";
  return text + d;
}

}  // namespace heddle::testing
