// The part that the measurers of this machine share.
#pragma once

#include <functional>
#include <utility>

#include "heddle/measure/measure.h"

namespace heddle::measuring {

/// The code of a candidate that was compiled elsewhere, by its index in the current call of
/// measure() or race(); null where there is none. kStaticChoice is the static choice of the task.
using GivenCode = std::function<const Json*(size_t candidate)>;
inline constexpr size_t kStaticChoice = static_cast<size_t>(-1);

class LocalMeasurer : public Measurer {
 public:
  /// While it exists, candidates with code are not compiled here.
  class CodeScope {
   public:
    CodeScope(LocalMeasurer& measurer, GivenCode code)
        : measurer_(measurer), before_(std::exchange(measurer.given_, std::move(code))) {}
    ~CodeScope() { measurer_.given_ = std::move(before_); }
    CodeScope(const CodeScope&) = delete;
    CodeScope& operator=(const CodeScope&) = delete;

   private:
    LocalMeasurer& measurer_;
    GivenCode before_;
  };

  /// Until it is destroyed, outputs are not compared with the reference: what is measured passed
  /// before.
  class UncheckedScope {
   public:
    explicit UncheckedScope(LocalMeasurer& measurer)
        : measurer_(measurer), before_(std::exchange(measurer.checks_, false)) {}
    ~UncheckedScope() { measurer_.checks_ = before_; }
    UncheckedScope(const UncheckedScope&) = delete;
    UncheckedScope& operator=(const UncheckedScope&) = delete;

   private:
    LocalMeasurer& measurer_;
    bool before_;
  };

 protected:
  bool checks() const { return checks_; }
  const Json* given_code(size_t candidate) const { return given_ ? given_(candidate) : nullptr; }

 private:
  GivenCode given_;
  bool checks_ = true;
};

}  // namespace heddle::measuring
