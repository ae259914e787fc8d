#include "measure/process/output_bound.h"

#include <cmath>
#include <limits>

#include "dag/errors/error_bound.h"
#include "heddle/dag/alternatives.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "ir/op_class.h"
#include "measure/process/pool.h"
#include "measure/task/reference.h"
#include "support/log.h"

namespace heddle::measuring {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Operations per second of sums of products in f64 with vectors. A slow operation with its error
// takes six times as long as one in vectors.
constexpr double kFlopsPerSecond = 1e9;
constexpr double kSlowWithError = 6 * kSlowOperation;
constexpr double kLongestSeconds = 1;

// Whether the seconds for values and errors, and the bytes of both in f64, are small enough.
bool affordable(const TuneTask& task) {
  const ComputeDag& dag = task.tmpl.dag();
  double flops = 0, bytes = 0;
  for (int i = 0; i < dag.size(); ++i) {
    const StageInfo& info = dag.info(i);
    if (dag.stage(i).is_placeholder()) continue;
    const auto points = static_cast<double>(info.points);
    const auto all = points * static_cast<double>(info.reduce_points);
    flops += info.flops + all * (1 + kSlowWithError * info.transcendentals_per_point);
    bytes += 24 * points;
  }
  const double threads = std::max(1, Target::host().cores);
  const auto free = static_cast<double>(free_memory_bytes());
  return flops / (kFlopsPerSecond * threads) < kLongestSeconds &&
         (free <= 0 || bytes < 0.25 * free);
}

ErrorModel error_model(const TuneTask& task) {
  ErrorModel model;
  model.tf32 = task.tmpl.options().allow_tf32;
  // The alternatives of the declaration are used and not those of the template, because a worker
  // knows the declaration only.
  for (const Alternative& a : alternatives_of(task.tmpl.dag(), task.tmpl.target(), {})) {
    model.by_largest = model.by_largest || a.error_growth > 1;
  }
  return model;
}

// The relative error of one rounding of the result. A bound of 0 would allow copies only.
double roundoff(DataType t) {
  if (!t.is_float()) return 0;
  if (t.is_float8()) return t == f8e4m3 ? 0x1p-3 : 0x1p-2;
  return t == f64 ? 0x1p-52 : t == f16 ? 0x1p-10 : t == bf16 ? 0x1p-7 : 0x1p-23;
}

// The difference of two elements. Equal infinities and two NaNs differ by 0.
double distance(double reference, double value) {
  if (reference == value || (std::isnan(reference) && std::isnan(value))) return 0;
  const double d = std::abs(reference - value);
  return std::isnan(d) ? kInf : d;
}

std::string problem_of(const TuneTask& task, const Tensor& output, int64_t wrong, int64_t size) {
  return "the check of '" + task.name + "': " + std::to_string(wrong) + " of " +
         std::to_string(size) + " elements of output '" + output.name() +
         "' are not what a computation in f64 gives; as large a difference is let pass there";
}

}  // namespace

NDArray allowed_difference(const NDArray& reference, const NDArray& value, const NDArray& error,
                           int64_t* wrong) {
  NDArray out = NDArray::empty(reference.shape(), f32);
  const double relative = roundoff(reference.dtype());
  // Direct access, because get() takes ten times as long.
  const auto* f32s = reference.dtype() == f32 ? reference.data<float>() : nullptr;
  const auto* values = value.dtype() == f64 ? value.data<double>() : nullptr;
  const auto* errors = error.defined() && error.dtype() == f64 ? error.data<double>() : nullptr;
  for (int64_t i = 0; i < reference.size(); ++i) {
    const double v = values ? values[i] : value.get(i);
    const double r = f32s ? static_cast<double>(f32s[i]) : reference.get(i);
    double e = errors ? errors[i] : error.defined() ? error.get(i) : 0;
    if (std::isnan(e))
      e = std::isnan(v) ? 0 : kInf;  // a NaN bound allows NaN only, or any difference
    if (std::isfinite(v)) e += relative * std::abs(v);
    const double d = distance(r, v);
    if (!(d <= e)) ++*wrong;
    const double all = e + (d <= e ? d : 2 * d);
    out.data<float>()[i] = std::nextafter(static_cast<float>(all), all > 0 ? HUGE_VALF : 0.0F);
  }
  return out;
}

OutputBounds bound_outputs(const TuneTask& task, std::span<const NDArray> arrays,
                           std::span<const NDArray> outputs) {
  const ComputeDag& dag = task.tmpl.dag();
  OutputBounds out;
  if (!may_enlarge_errors(dag) || !affordable(task)) return out;
  try {
    const std::vector<BoundedOutput> bounded = declare_error_bounds(dag, error_model(task));
    std::vector<Tensor> made;
    for (const BoundedOutput& b : bounded) {
      made.push_back(b.value);
      if (b.error) made.push_back(b.error);
    }
    const ComputeDag of(made);
    std::vector<Tensor> args = of.placeholders();
    std::vector<NDArray> values;
    for (const Tensor& p : args) {
      for (size_t i = 0; i < task.args.size(); ++i) {
        if (task.args[i].same_as(p)) values.push_back(arrays[i]);
      }
    }
    HEDDLE_ICHECK(values.size() == args.size(), "bounds read what the declaration reads");
    for (const Tensor& t : made) {
      args.push_back(t);
      values.push_back(NDArray::empty(t.extents(), t.dtype()));
    }
    build(vector_schedule(of), args).call(values);
    size_t next = values.size() - made.size();
    for (size_t i = 0; i < bounded.size(); ++i) {
      const NDArray value = values[next++];
      const NDArray error = bounded[i].error ? values[next++] : NDArray();
      int64_t wrong = 0;
      out.allowed.push_back(allowed_difference(outputs[i], value, error, &wrong));
      if (wrong > 0) out.problem = problem_of(task, dag.outputs()[i], wrong, value.size());
    }
  } catch (const Error& e) {
    HEDDLE_LOG_AT("search", 1, "no error bounds for '" + task.name + "': " + e.message);
    out = {};
  }
  return out;
}

}  // namespace heddle::measuring
