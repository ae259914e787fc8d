// Reads the members of a JSON object from a file. Errors name the member that is missing or wrong.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "support/edit_distance.h"
#include "support/hashing/hex.h"

namespace heddle::records {

class ObjectReader {
 public:
  /// `what` is what the object is, for messages: "a record".
  ObjectReader(const Json& json, const std::string& what) : json_(json) {
    if (!json.is_object()) throw_user_error(what + " is a JSON object");
  }

  /// The member that was read last, which an error is about.
  std::string_view key() const { return key_; }

  const Json& need(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) throw_user_error(std::string("key '") + key + "' is missing");
    return *value;
  }
  const Json* find(const char* key) const {
    key_ = key;
    return json_.find(key);
  }

  /// Throws a User error for a member that is not one of `keys`.
  void only(std::initializer_list<const char*> keys) const {
    for (const auto& [key, value] : json_.members()) {
      bool known = false;
      for (const char* k : keys) known = known || key == k;
      key_ = key;
      if (!known)
        throw_user_error("key '" + key + "' is unknown", {},
                         did_you_mean(key, {keys.begin(), keys.end()}));
    }
  }

  /// Calls `read(value)`. An error that it throws is extended by the key.
  template <class F>
  auto of(const char* key, F read) const {
    const Json& value = need(key);
    try {
      return read(value);
    } catch (const Error& e) {
      throw_user_error(std::string("key '") + key + "': " + e.message, {}, e.help);
    }
  }
  template <class F, class T>
  T of(const char* key, F read, T fallback) const {
    return find(key) != nullptr ? of(key, read) : fallback;
  }

  uint64_t hex(const char* key) const {
    return of(key, [](const Json& j) {
      uint64_t value = 0;
      if (!parse_hex(j.as_string(), &value)) {
        throw_user_error("'" + j.as_string() + "' is not a hexadecimal number of 64 bits");
      }
      return value;
    });
  }
  std::string text(const char* key, std::string fallback) const {
    return of(key, [](const Json& j) { return j.as_string(); }, std::move(fallback));
  }
  double number(const char* key) const {
    return of(key, [](const Json& j) { return j.as_double(); }, 0.0);
  }
  /// A finite number that is not negative; 0 where the member is missing.
  double amount(const char* key) const {
    return of(
        key,
        [](const Json& j) {
          const double value = j.as_double();
          if (!(value >= 0) || !std::isfinite(value))
            throw_user_error("it is " + j.dump() + "; it must be at least 0");
          return value;
        },
        0.0);
  }

 private:
  const Json& json_;
  mutable std::string_view key_ = {};
};

}  // namespace heddle::records
