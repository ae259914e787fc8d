#include "quantize/precision/output_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/quantize/precision.h"
#include "heddle/support/error.h"

namespace heddle {
namespace quantize {

void OutputError::add(const NDArray& got, const NDArray& want) {
  HEDDLE_ICHECK(got.shape() == want.shape(), "outputs of one network have one shape");
  for (int64_t i = 0; i < want.size(); ++i) {
    const double g = got.get(i), w = want.get(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) {
      if (std::isfinite(w)) largest_ = std::max(largest_, std::abs(w));
      continue;
    }
    if (!std::isfinite(g) || !std::isfinite(w)) {
      difference_ = std::numeric_limits<double>::infinity();
      return;
    }
    largest_ = std::max(largest_, std::abs(w));
    difference_ = std::max(difference_, std::abs(g - w));
  }
}

double OutputError::value() const {
  if (difference_ == 0) return 0;
  return largest_ > 0 ? difference_ / largest_ : std::numeric_limits<double>::infinity();
}

}  // namespace quantize

double output_error(const NDArray& got, const NDArray& want) {
  quantize::OutputError error;
  error.add(got, want);
  return error.value();
}

}  // namespace heddle
