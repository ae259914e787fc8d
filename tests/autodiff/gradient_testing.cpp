#include "autodiff/gradient_testing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle {
namespace {

std::vector<Tensor> tensors_of(const std::vector<Input>& inputs) {
  std::vector<Tensor> tensors;
  for (const Input& in : inputs) tensors.push_back(in.tensor);
  return tensors;
}

double dot(const NDArray& a, const NDArray& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

NDArray evaluate(const Tensor& y, const std::vector<Input>& inputs) {
  return run_interpreted(y, inputs).result;
}

/// x + step * direction.
NDArray moved(const NDArray& x, const NDArray& direction, double step) {
  NDArray y = NDArray::zeros(x.shape(), x.dtype());
  for (int64_t i = 0; i < x.size(); ++i) y.set(i, x.get(i) + step * direction.get(i));
  return y;
}

void expect_differences(const Tensor& y, const NDArray& head, const Tensor& dx, size_t which,
                        const std::vector<Input>& inputs, const std::vector<Input>& all,
                        const Differences& options) {
  const NDArray got = evaluate(dx, all);
  const NDArray& x = inputs[which].array;
  ASSERT_EQ(dx.extents(), inputs[which].tensor.extents());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    NDArray direction = NDArray::random(x.shape(), x.dtype(), 100 * seed + which, -1, 1);
    // The last directions move few elements, so that no error is hidden by others.
    for (int64_t i = 0; i < x.size() && seed > 1; ++i)
      if (static_cast<uint64_t>(i) % 5 != seed) direction.set(i, 0);
    double change = 0, size = 0;
    for (const double side : {1.0, -1.0}) {
      std::vector<Input> at = all;
      at[which].array = moved(x, direction, side * options.step);
      const NDArray value = evaluate(y, at);
      change += side * dot(value, head);
      size += std::sqrt(dot(value, value) * dot(head, head));
    }
    // What rounding of large values leaves of their difference.
    const double rounding = 16 * std::numeric_limits<double>::epsilon() * size / options.step;
    const double want = change / (2 * options.step), is = dot(got, direction);
    ASSERT_NEAR(is, want,
                options.tolerance * std::max({1.0, std::abs(want), std::abs(is)}) * 100 + rounding)
        << "gradient of '" << y.name() << "' with respect to '" << inputs[which].tensor.name()
        << "', direction " << seed << "\n"
        << ComputeDag({dx}).to_text();
  }
}

std::vector<size_t> variables(const std::vector<Input>& inputs, const Differences& options) {
  if (!options.wrt.empty()) return options.wrt;
  std::vector<size_t> which;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].tensor.dtype().is_float()) which.push_back(i);
  return which;
}

struct Declared {
  Tensor y;
  std::vector<Input> all;  ///< the inputs and the head
  std::vector<size_t> which;
  std::vector<Tensor> gradients;
};

Declared declared(const Declare& declare, const std::vector<Input>& inputs,
                  const Differences& options) {
  Declared d{declare(tensors_of(inputs)), inputs, variables(inputs, options), {}};
  d.all.push_back(input(d.y.extents(), d.y.dtype(), 77, -1, 1));
  std::vector<Tensor> wrt;
  for (size_t i : d.which) wrt.push_back(inputs[i].tensor);
  d.gradients = gradient({d.y}, wrt, {d.all.back().tensor});
  return d;
}

}  // namespace

Input real(const Dims& dims, uint64_t seed, double lo, double hi) {
  return input(dims, f64, seed, lo, hi);
}

void expect_gradient(const Declare& declare, const std::vector<Input>& inputs,
                     const Differences& options) {
  const Declared d = declared(declare, inputs, options);
  for (size_t i = 0; i < d.which.size(); ++i)
    expect_differences(d.y, d.all.back().array, d.gradients[i], d.which[i], inputs, d.all, options);
}

void expect_second_gradient(const Declare& declare, const std::vector<Input>& inputs,
                            const Differences& options) {
  const Declared first = declared(declare, inputs, options);
  std::vector<Tensor> wrt;
  for (size_t i : first.which) wrt.push_back(inputs[i].tensor);
  for (const Tensor& dx : first.gradients) {
    const Input head = input(dx.extents(), dx.dtype(), 78, -1, 1);
    std::vector<Input> all = first.all;
    all.push_back(head);
    const std::vector<Tensor> second =
        gradient({dx}, wrt, {head.tensor}, {.unconnected = Unconnected::Zero});
    for (size_t i = 0; i < second.size(); ++i)
      expect_differences(dx, head.array, second[i], first.which[i], inputs, all, options);
  }
}

void expect_same_every_way(const Declare& declare, const std::vector<Input>& inputs,
                           double tolerance) {
  const Declared d = declared(declare, inputs, {});
  for (const Tensor& dx : d.gradients) {
    const std::vector<WayToRun> ways = run_every_way(dx, d.all);
    const Dims dims = dx.extents();
    const auto interpreted = [&](const Dims& at) {
      int64_t position = 0;
      for (size_t n = 0; n < dims.size(); ++n) position = position * dims[n] + at[n];
      return ways[0].result.get(position);
    };
    for (const WayToRun& way : ways) expect_result(dx, way, interpreted, tolerance);
  }
}

}  // namespace heddle
