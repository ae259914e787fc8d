// What the measurers of this machine have in common, beyond being measurers.
#pragma once

#include <functional>
#include <utility>

#include "heddle/measure/measure.h"

namespace heddle::measuring {

/// The code of a candidate that was compiled elsewhere, by its index in the call of measure() or
/// race() at hand; null for one that was not. kStaticChoice: of the task's static choice.
using GivenCode = std::function<const Json*(size_t candidate)>;
inline constexpr size_t kStaticChoice = static_cast<size_t>(-1);

class LocalMeasurer : public Measurer {
 public:
  /// Until it is destroyed, candidates with code are not compiled here.
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

 protected:
  const Json* given_code(size_t candidate) const { return given_ ? given_(candidate) : nullptr; }

 private:
  GivenCode given_;
};

}  // namespace heddle::measuring
