#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <type_traits>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "runtime/array/compare_each.h"
#include "runtime/array/elements.h"

namespace heddle {
namespace {

template <typename A, typename B>
double distance(const A& a, const B& b) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    // 64-bit integers do not fit doubles, so their difference is computed first.
    const auto difference = static_cast<__int128>(a) - static_cast<__int128>(b);
    return static_cast<double>(difference < 0 ? -difference : difference);
  } else {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    if (x == y || (std::isnan(x) && std::isnan(y))) return 0;  // also equal infinities
    const double d = std::fabs(x - y);
    return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
}

// Whether all elements are certainly close. Returns false also for equal NaNs and infinities. The
// elements are compared in blocks of a fixed size and without a branch, which compilers vectorise:
// 16 M floats take 20 ms in place of 100.
bool surely_close(const float* a, const float* b, std::int64_t size, double rtol, double atol) {
  constexpr std::int64_t kBlock = 256;
  constexpr double kLargest = std::numeric_limits<double>::max();
  const auto far = [&](std::int64_t i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    // An infinite bound must not hide an infinite difference.
    return !(std::fabs(x - y) <= std::min(atol + rtol * std::fabs(y), kLargest));
  };
  std::int64_t begin = 0;
  for (; begin + kBlock <= size; begin += kBlock) {
    int any = 0;
    for (std::int64_t i = 0; i < kBlock; ++i) any |= static_cast<int>(far(begin + i));
    if (any != 0) return false;
  }
  for (; begin < size; ++begin) {
    if (far(begin)) return false;
  }
  return true;
}

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

// `within(i, d, |b|)` says whether a difference of d is small enough at position i.
template <typename F>
Difference compare_within(const NDArray& a, const NDArray& b, F within) {
  Difference result;
  internal::visit_elements(a.dtype(), a.data(), [&](const auto* x) {
    internal::visit_elements(b.dtype(), b.data(), [&](const auto* y) {
      for (std::int64_t i = 0; i < a.size(); ++i) {
        const double d = distance(x[i], y[i]);
        if (d == 0) continue;
        const double magnitude_b = std::fabs(static_cast<double>(y[i]));
        const double magnitude = std::max(std::fabs(static_cast<double>(x[i])), magnitude_b);
        result.max_abs = std::max(result.max_abs, d);
        // inf/inf is NaN, and such a pair differs infinitely.
        result.max_rel = std::max(result.max_rel, std::isinf(d) ? d : d / magnitude);
        if (!within(i, d, magnitude_b)) {
          if (result.mismatches++ == 0) {
            result.first_mismatch = i;
            result.first_a = static_cast<double>(x[i]);
            result.first_b = static_cast<double>(y[i]);
          }
        }
      }
    });
  });
  return result;
}

void check_shapes(const NDArray& a, const NDArray& b) {
  if (a.defined() && b.defined() && a.shape() == b.shape()) return;
  throw_user_error("cannot compare " + describe(a) + " with " + describe(b));
}

}  // namespace

Difference compare(const NDArray& a, const NDArray& b, double rtol, double atol) {
  check_shapes(a, b);
  if (!a.device().is_cpu() || !b.device().is_cpu()) {
    return compare(a.to_host(), b.to_host(), rtol, atol);
  }
  return compare_within(a, b, [&](std::int64_t, double d, double magnitude) {
    // A NaN tolerance or an infinite bound must never hide a difference.
    return !std::isinf(d) && d <= atol + rtol * magnitude;
  });
}

Difference compare_each(const NDArray& a, const NDArray& b, const NDArray& allowed) {
  check_shapes(a, b);
  check_shapes(a, allowed);
  if (!a.device().is_cpu() || !b.device().is_cpu()) {
    return compare_each(a.to_host(), b.to_host(), allowed.to_host());
  }
  const auto* most = allowed.data<float>();
  return compare_within(
      a, b, [&](std::int64_t i, double d, double) { return d <= static_cast<double>(most[i]); });
}

std::string describe(const Difference& difference, const NDArray& a) {
  if (difference.ok()) return "equal, largest difference " + number(difference.max_abs);
  std::string index;
  std::int64_t position = difference.first_mismatch;
  for (std::size_t i = a.shape().size(); i-- > 0;) {
    index = std::to_string(position % a.shape()[i]) + (index.empty() ? "" : ", ") + index;
    position /= a.shape()[i];
  }
  return std::to_string(difference.mismatches) + " of " + std::to_string(a.size()) +
         " elements differ, first at [" + index + "]: " + number(difference.first_a) + " and " +
         number(difference.first_b) + ", largest difference " + number(difference.max_abs);
}

double max_abs_diff(const NDArray& a, const NDArray& b) {
  return compare(a, b, 0, std::numeric_limits<double>::infinity()).max_abs;
}

bool allclose(const NDArray& a, const NDArray& b, double rtol, double atol) {
  const bool floats = a.defined() && b.defined() && a.dtype() == f32 && b.dtype() == f32 &&
                      a.shape() == b.shape() && a.device().is_cpu() && b.device().is_cpu();
  if (floats && surely_close(a.data<float>(), b.data<float>(), a.size(), rtol, atol)) return true;
  return compare(a, b, rtol, atol).ok();
}

}  // namespace heddle
