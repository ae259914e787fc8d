// Declarations that several tests of the DAG look at.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag_test {

/// The stage called `name`.
inline int find(const ComputeDag& dag, const std::string& name) {
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.stage(s).name() == name) return s;
  }
  throw_internal_error("no stage " + name);
}
inline const StageInfo& info(const ComputeDag& dag, const std::string& name) {
  return dag.info(find(dag, name));
}

struct Matmul {
  explicit Matmul(int m = 512, int n = 512, int kk = 512, DataType t = f32)
      : a(placeholder({m, kk}, t, "A")),
        b(placeholder({kk, n}, t, "B")),
        bias(placeholder({n}, t, "bias")),
        k(reduce_axis(kk, "k")),
        c(compute(
            {m, n}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); }, "C")),
        d(compute(
            {m, n}, [&](Axis i, Axis j) { return max(c(i, j) + bias(j), make_const(t, 0)); },
            "D")) {}
  Tensor a, b, bias;
  Axis k;
  Tensor c, d;
};

struct Softmax {
  explicit Softmax(int m = 64, int n = 128)
      : x(placeholder({m, n}, f32, "x")),
        k(reduce_axis(n, "k")),
        r(reduce_axis(n, "r")),
        high(compute(
            {m}, [&](Axis i) { return max(x(i, k), k); }, "high")),
        total(compute(
            {m}, [&](Axis i) { return sum(exp(x(i, r) - high(i)), r); }, "total")),
        y(compute(
            {m, n}, [&](Axis i, Axis j) { return exp(x(i, j) - high(i)) / total(i); }, "y")) {}
  Tensor x;
  Axis k, r;
  Tensor high, total, y;
};

/// data[n, c, y, x] * weight[o, c, r, s] with padding, bias and relu.
struct Conv {
  Conv(int c, int size, int o, int kernel, int stride, int pad)
      : data(placeholder({2, c, size, size}, f32, "data")),
        weight(constant_placeholder({o, c, kernel, kernel}, f32, "weight")),
        bias(constant_placeholder({o}, f32, "bias")),
        rc(reduce_axis(c, "rc")),
        rh(reduce_axis(kernel, "rh")),
        rw(reduce_axis(kernel, "rw")) {
    const int padded = size + 2 * pad, out = (padded - kernel) / stride + 1;
    pad_stage = compute(
        {2, c, padded, padded},
        [&](Axis n, Axis ch, Axis h, Axis w) {
          Expr inside =
              pad <= Expr(h) && Expr(h) < pad + size && pad <= Expr(w) && Expr(w) < pad + size;
          return select(inside, data(n, ch, h - pad, w - pad), 0.f);
        },
        "pad");
    conv = compute(
        {2, o, out, out},
        [&](Axis n, Axis f, Axis h, Axis w) {
          return sum(pad_stage(n, rc, h * stride + rh, w * stride + rw) * weight(f, rc, rh, rw),
                     {rc, rh, rw});
        },
        "conv");
    relu = compute(
        {2, o, out, out},
        [&](Axis n, Axis f, Axis h, Axis w) { return max(conv(n, f, h, w) + bias(f), 0.f); },
        "relu");
  }
  Tensor data, weight, bias;
  Axis rc, rh, rw;
  Tensor pad_stage, conv, relu;
};

}  // namespace heddle::dag_test
