// What the lessons about the handwritten digits share: sizes, and how results are compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <heddle/dsl/tensor.h>
#include <heddle/runtime/ndarray.h>

#include "tensor_file.h"

namespace heddle::tutorials {

inline constexpr int64_t kBatch = 128, kSide = 8, kPixels = kSide * kSide, kClasses = 10;

/// The class of each image: that of its largest logit.
inline std::vector<int32_t> largest_of_each_row(const std::vector<float>& logits) {
  std::vector<int32_t> best;
  for (auto row = logits.begin(); row != logits.end(); row += kClasses) {
    best.push_back(static_cast<int32_t>(std::max_element(row, row + kClasses) - row));
  }
  return best;
}

/// The largest difference of a row's logits, relative to the largest logit of that row; of all rows
/// the worst.
inline double worst_relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0;
  for (size_t row = 0; row < want.size(); row += kClasses) {
    double difference = 0, largest = 0;
    for (size_t i = row; i < row + kClasses; ++i) {
      // NaN is larger than any error, which std::max would not see.
      if (std::isnan(got[i])) return INFINITY;
      difference = std::max(difference, std::abs(double{got[i]} - want[i]));
      largest = std::max(largest, std::abs(double{want[i]}));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

inline int count_equal(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  int same = 0;
  for (size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1 : 0;
  return same;
}

/// A kernel (of a network as a whole, or of its parts) with its arrays: images in, logits out.
template <class Kernel>
class Classifier {
 public:
  /// The kernel takes the images, the weights in this order, and the logits.
  /// `device`: where its arrays live.
  Classifier(Kernel kernel, const std::vector<Tensor>& weights, const TensorFile& file,
             Device device = Device::cpu())
      : kernel_(std::move(kernel)) {
    arrays_.push_back(images_.to_device(device));
    for (const Tensor& w : weights) {
      const auto& values = file.at(w.name());
      arrays_.push_back(NDArray::from(values.f32(), values.shape).to_device(device));
    }
    arrays_.push_back(NDArray::zeros({kBatch, kClasses}, f32, device));
  }

  void run() const { kernel_.call(arrays_); }

  /// The logits of all images. The kernel takes 128 at a time, and the last batch is filled up with
  /// what is left of the one before: those results are not looked at.
  std::vector<float> classify(const std::vector<float>& pixels) const {
    const int64_t count = static_cast<int64_t>(pixels.size()) / kPixels;
    std::vector<float> all;
    for (int64_t begin = 0; begin < count; begin += kBatch) {
      const int64_t used = std::min(kBatch, count - begin);
      std::copy_n(pixels.begin() + begin * kPixels, used * kPixels, images_.data<float>());
      if (arrays_.front().device().is_cuda()) arrays_.front().copy_from(images_);
      run();
      const NDArray logits = arrays_.back().to_host();
      all.insert(all.end(), logits.data<float>(), logits.data<float>() + used * kClasses);
    }
    return all;
  }

 private:
  Kernel kernel_;
  NDArray images_ = NDArray::zeros({kBatch, 1, kSide, kSide}, f32);
  std::vector<NDArray> arrays_;
};

}  // namespace heddle::tutorials
