#include "driver/tolerance.h"

#include <algorithm>
#include <cmath>

#include "dag/errors/error_expr.h"
#include "heddle/dag/factors.h"

namespace heddle::driver {
namespace {

// The largest finite absolute value. An infinity says nothing about the size of the other elements.
double largest(const NDArray& a) {
  if (a.dtype() == f32) {  // get() would take ten times as long
    float most = 0;
    for (const float* p = a.data<float>(); p != a.data<float>() + a.size(); ++p) {
      const float v = std::abs(*p);
      if (v > most && std::isfinite(v)) most = v;
    }
    return most;
  }
  double most = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = std::abs(a.get(i));
    if (v > most && std::isfinite(v)) most = v;
  }
  return most;
}

// Whether a product of `dag` reads an operand of such a type.
bool multiplies(const ComputeDag& dag, FunctionRef<bool(DataType)> type) {
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.info(i).stage_class != StageClass::ComplexReduction) continue;
    for (const Access& a : dag.info(i).reads) {
      if (type(a.tensor.dtype())) return true;
    }
  }
  return false;
}

// Whether `dag` has a product that uses tf32, or one that may.
bool rounds_to_tf32(const ComputeDag& dag, bool allowed) {
  if (allowed) return multiplies(dag, [](DataType t) { return t == f32; });
  for (int i = 0; i < dag.size(); ++i) {
    const Reduce* r = dag.stage(i).is_reduction() ? dag.stage(i).bodies()[0].as<Reduce>() : nullptr;
    if (r && rounds_factors(r->sources[0])) return true;
  }
  return false;
}

// Whether the matrix units of a GPU may add up products of 8-bit floats.
bool adds_float8(const ComputeDag& dag) {
  return multiplies(dag, [](DataType t) { return t.is_float8(); });
}

bool rounds(const Expr& e) {
  if (!e.dtype().is_float()) return false;
  const Cast* cast = e.as<Cast>();
  return cast ? e.dtype().bits < cast->value.dtype().bits : e.as<Binary>() != nullptr;
}

// The coarsest rounding of results within `dag`: a value between two of them goes either way, as
// its sum comes in one order or another.
double coarsest_rounding(const ComputeDag& dag) {
  double coarsest = 0;
  for (int i = 0; i < dag.size(); ++i) {
    const Operation& op = dag.stage(i);
    if (op.is_placeholder() || dag.info(i).precomputable) continue;
    for (const Expr& body : op.bodies()) {
      visit(body, [&](const Expr& e) {
        if (rounds(e)) coarsest = std::max(coarsest, dag::unit_roundoff(e.dtype()));
      });
    }
  }
  return coarsest;
}

}  // namespace

Tolerance rounding_tolerance(const ComputeDag& dag, const NDArray& reference, double magnitude,
                             bool allow_tf32) {
  const DataType t = reference.dtype();
  if (!t.is_float()) return {};
  double terms = 0;
  for (int i = 0; i < dag.size(); ++i) terms += static_cast<double>(dag.info(i).reduce_points);
  // 16-bit floats are accumulated in f32 and rounded at the end of each stage.
  const double sum_epsilon = t == f64 ? 0x1p-53 : 0x1p-24;
  const double epsilon = dag::unit_roundoff(t), inner = std::max(epsilon, coarsest_rounding(dag));
  const double scale = std::max(largest(reference), magnitude);
  double atol = sum_epsilon * (64 + 4 * std::sqrt(terms)) * scale;
  if (inner > sum_epsilon) atol += 4 * inner * scale;
  if (adds_float8(dag)) {
    // Each wgmma of 32 steps cuts terms 13 bits below the largest one, at most 2^-7 of a sum of 128
    // steps. These sums are added up in f32.
    const double products = magnitude > 0 ? std::sqrt(terms) : 0;
    atol += std::max(0x1p-7 * scale, 0x1p-9 * products);
  }
  if (t == f32 && rounds_to_tf32(dag, allow_tf32)) {
    // Each product has a relative error of up to 2^-10, one half for each operand.
    const double products = magnitude > 0 ? std::sqrt(terms) : 0;
    return {64 * epsilon + 0x1p-10, atol + 0x1p-10 * (4 * scale + products)};
  }
  // Neighbours of 8 bits are an eighth or a quarter apart.
  return {(t.is_float8() ? 4 : 64) * epsilon, atol};
}

}  // namespace heddle::driver
