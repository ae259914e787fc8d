#include "quantize/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace heddle::quantize {
namespace {

constexpr float kMost = 127;

}  // namespace

QuantizedArray quantized_weights(const NDArray& weights, std::optional<int> axis) {
  const int64_t channels = axis ? weights.extent(*axis) : 1;
  int64_t inner = 1;  // elements from one index of the dimension to the next
  for (int d = axis.value_or(0) + 1; axis && d < weights.rank(); ++d) inner *= weights.extent(d);
  const auto channel = [&](int64_t i) { return axis ? i / inner % channels : 0; };

  const auto* w = weights.data<float>();
  std::vector<float> most(static_cast<size_t>(channels), 0);
  for (int64_t i = 0; i < weights.size(); ++i) {
    float& m = most[static_cast<size_t>(channel(i))];
    m = std::max(m, std::abs(w[i]));
  }
  QuantizedArray out{NDArray::empty(weights.shape(), i8),
                     NDArray::empty(axis ? Extents{channels} : Extents{}, f32)};
  auto* scales = out.scales.data<float>();
  // A channel of zeros has any scale, but its bias is in steps of it. One that is too small would
  // divide to infinity.
  constexpr float kOfZeros = 0x1p-20F;
  float least = std::numeric_limits<float>::infinity();
  for (size_t c = 0; c < most.size(); ++c) {
    scales[c] = std::max(most[c] / kMost, 1e-30F);
    if (most[c] > 0) least = std::min(least, scales[c]);
  }
  for (size_t c = 0; c < most.size(); ++c) {
    if (most[c] == 0) scales[c] = std::isfinite(least) ? least : kOfZeros;
  }
  auto* q = out.integers.data<int8_t>();
  for (int64_t i = 0; i < weights.size(); ++i)
    q[i] =
        static_cast<int8_t>(std::clamp(std::nearbyint(w[i] / scales[channel(i)]), -kMost, kMost));
  return out;
}

std::optional<QuantizedArray> quantized_bias(const NDArray& bias, const NDArray& scales,
                                             float input) {
  QuantizedArray out{NDArray::empty(bias.shape(), i32), NDArray::empty(scales.shape(), f32)};
  for (int64_t c = 0; c < scales.size(); ++c)
    out.scales.data<float>()[c] = scales.data<float>()[c] * input;
  for (int64_t i = 0; i < bias.size(); ++i) {
    const float scale = out.scales.data<float>()[scales.size() == 1 ? 0 : i];
    const double q = std::nearbyint(double{bias.data<float>()[i]} / scale);
    if (!(std::abs(q) < 2147483647.0)) return std::nullopt;
    out.integers.data<int32_t>()[i] = static_cast<int32_t>(q);
  }
  return out;
}

}  // namespace heddle::quantize
