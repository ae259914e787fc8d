// Booster: gradient-boosted trees through the part of XGBoost's C API that is needed. No other file
// uses that API. Its failures throw a Runtime error with XGBoost's message.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace heddle::cost_model {

/// Rows of equal width, one after the other in memory.
struct DenseRows {
  std::span<const float> values;
  size_t width = 0;
  size_t rows() const { return width == 0 ? 0 : values.size() / width; }
};

struct TrainingData {
  DenseRows rows;
  std::span<const float> labels, weights;  ///< one for each row; weights may be empty
  std::span<const unsigned> groups;        ///< sizes of runs of rows to be ranked; may be empty
};

class Booster {
 public:
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  Booster() = default;
  ~Booster();
  Booster(Booster&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  Booster& operator=(Booster&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }

  /// Fits `rounds` trees on top of those of `base` (bytes from `save`; empty: none).
  static Booster fit(const TrainingData& data, const Parameters& parameters, int rounds,
                     const std::string& base, int threads);
  static Booster load(const std::string& bytes);
  std::string save() const;
  std::vector<double> predict(const DenseRows& rows) const;
  size_t width() const;  ///< columns it was fitted on
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  void* handle_ = nullptr;
};

}  // namespace heddle::cost_model
