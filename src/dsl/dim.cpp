#include "heddle/dsl/dim.h"

#include <utility>

namespace heddle {
namespace {

constexpr int64_t kLargest = int64_t{1} << 40;

}  // namespace

Dim::Dim(std::string name, int64_t lo, int64_t hi, int64_t multiple)
    : name_(std::move(name)),
      multiple_(multiple),
      size_(multiple == 1 ? name_ : name_ + "/" + std::to_string(multiple),
            SizeRange{(lo + multiple - 1) / multiple, hi / multiple}) {}

Dim dim(std::string name, int64_t lo, int64_t hi, Where where) {
  if (lo < 1 || hi < lo || hi > kLargest)
    throw_user_error(
        "dimension '" + name + "' is " + std::to_string(lo) + " to " + std::to_string(hi), where,
        "give 1 <= lo <= hi <= 2^40");
  return Dim(std::move(name), lo, hi, 1);
}

Dim Dim::multiple_of(int64_t m, Where where) const {
  const auto none = [&](const std::string& why) {
    throw_user_error("dimension '" + name_ + "' of " + std::to_string(lo()) + " to " +
                         std::to_string(hi()) + " has no size that is a multiple of " +
                         std::to_string(m),
                     where, why);
  };
  if (m < 1) none("a multiple is at least 1");
  if (multiple_ != 1) none("it is one of multiples of " + std::to_string(multiple_) + " already");
  if (hi() / m < 1 || hi() / m * m < lo()) none("give a smaller multiple or a larger range");
  return Dim(name_, lo(), hi(), m);
}

Dim::operator Expr() const { return multiple_ == 1 ? size_.expr() : size_.expr() * multiple_; }

}  // namespace heddle
