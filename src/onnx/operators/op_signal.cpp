// Fourier transforms, windows of samples, and the weights of mel spectrograms.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "heddle/ops/fourier.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

// The largest number of elements of windows and weights, which are arrays.
constexpr int64_t kMostElements = int64_t{1} << 26;

// The axis was an attribute up to opset 19.
std::vector<Value> dft(const NodeScope& s) {
  int64_t axis = s.integer("axis", s.opset() < 20 ? 1 : -2);
  if (s.has(2)) axis = s.known_integer(2, "axis");
  const int64_t length = s.has(1) ? s.known_integer(1, "length") : 0;
  if (s.has(1) && length < 1) s.fail("its length is " + std::to_string(length));
  return {ops::dft(s.tensor(0), s.axis(axis, s.rank(0)),
                   {.length = length,
                    .inverse = s.integer("inverse", 0) != 0,
                    .onesided = s.integer("onesided", 0) != 0},
                   s.at())};
}

std::vector<Value> stft(const NodeScope& s) {
  const int64_t step = s.known_integer(1, "step");
  int64_t length = s.has(3) ? s.known_integer(3, "length") : 0;
  if (s.has(3) && length < 1) s.fail("its frames have the length " + std::to_string(length));
  if (length == 0 && !s.has(2)) length = s.rank(0) == 3 ? s.shape(0)[1] : 0;
  return {ops::stft(s.tensor(0), step, s.optional_tensor(2), length, s.integer("onesided", 1) != 0,
                    s.at())};
}

DataType output_type(const NodeScope& s, const char* name) {
  return dtype_of(static_cast<int32_t>(s.integer(name, 1)),
                  "attribute '" + std::string(name) + "'");
}

/// offset + first cos(t) + second cos(2 t) for t from 0 to 2 pi.
std::vector<Value> cosine_window(const NodeScope& s, double offset, double first, double second) {
  const int64_t size = s.known_integer(0, "size");
  if (size < 1 || size > kMostElements) s.fail("its window has the size " + std::to_string(size));
  const bool periodic = s.integer("periodic", 1) != 0;
  const NDArray window = NDArray::empty({size}, output_type(s, "output_datatype"));
  const auto turn = static_cast<double>(std::max<int64_t>(periodic ? size : size - 1, 1));
  for (int64_t i = 0; i < size; ++i) {
    const double t = 2 * std::numbers::pi * static_cast<double>(i) / turn;
    window.set(i, offset + first * std::cos(t) + second * std::cos(2 * t));
  }
  return {s.constant(window)};
}

std::vector<Value> hann(const NodeScope& s) { return cosine_window(s, 0.5, -0.5, 0); }
std::vector<Value> hamming(const NodeScope& s) {
  return cosine_window(s, 25.0 / 46, -21.0 / 46, 0);
}
std::vector<Value> blackman(const NodeScope& s) { return cosine_window(s, 0.42, -0.5, 0.08); }

// Triangles over the elements of a spectrum, whose corners are equally far apart on the mel scale.
std::vector<Value> mel_weights(const NodeScope& s) {
  const int64_t bins = s.known_integer(0, "number of bins");
  const int64_t length = s.known_integer(1, "length"), rate = s.known_integer(2, "sample rate");
  const double low = s.known_number(3, "lowest frequency");
  const double high = s.known_number(4, "highest frequency");
  if (bins < 1 || bins > kMostElements || length < 1 || rate < 1 ||
      length / 2 + 1 > kMostElements / bins)
    s.fail(std::to_string(bins) + " bins of a transform of " + std::to_string(length) +
           " elements at a rate of " + std::to_string(rate));
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  const auto corner = [&](int64_t i) {
    const double hertz =
        700 * (std::pow(10, (mel(low) + static_cast<double>(i) * step) / 2595) - 1);
    const double place =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(place >= 0 && place <= static_cast<double>(length / 2)))
      s.fail("frequency " + std::to_string(hertz) + " is not in the spectrum");
    return static_cast<int64_t>(place);
  };
  const NDArray weights = NDArray::zeros({length / 2 + 1, bins}, output_type(s, "output_datatype"));
  for (int64_t b = 0; b < bins; ++b) {
    const int64_t left = corner(b), centre = corner(b + 1), right = corner(b + 2);
    const auto set = [&](int64_t row, int64_t part, int64_t whole) {
      weights.set(row * bins + b, static_cast<double>(part) / static_cast<double>(whole));
    };
    for (int64_t row = left; row <= centre; ++row)
      set(row, centre == left ? 1 : row - left, centre == left ? 1 : centre - left);
    for (int64_t row = centre; row < right; ++row) set(row, right - row, right - centre);
  }
  return {s.constant(weights)};
}

}  // namespace

std::vector<OperatorEntry> signal_operators() {
  return {{"BlackmanWindow", blackman},     {"DFT", dft},
          {"HammingWindow", hamming},       {"HannWindow", hann},
          {"MelWeightMatrix", mel_weights}, {"STFT", stft}};
}

}  // namespace heddle::onnx
