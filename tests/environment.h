// Variables of the environment: those that tests set, and those that say how much a test does.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace heddle::testing {

/// Sets a variable of the environment until destroyed; unsets it where the value is empty.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    if (value.empty()) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value.c_str(), 1);
    }
  }
  ~Variable() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// The number in a variable of the environment; `fallback` where it is not set. Property tests ask
/// for HEDDLE_PROPERTY_COUNT, how many cases they draw, and HEDDLE_PROPERTY_SEED, that of the
/// first.
inline int64_t number_from_env(const char* name, int64_t fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoll(value) : fallback;
}

}  // namespace heddle::testing
