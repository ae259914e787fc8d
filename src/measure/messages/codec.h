// How messages between processes are written as JSON, and read. A message is a struct that lists its
// fields once, for both directions:
//
//   struct Drop {
//     static constexpr Verb kKind = Verb::Drop;  // {"do": "drop", "jobs": [3, 4]}
//     std::vector<int64_t> jobs;
//     static void fields(auto& m, auto& field) { field("jobs", m.jobs); }
//   };
//
// `field(key, value, key, value, ..)` requires the keys, unless a value is a std::optional.
// `field.maybe` leaves default values out. A field may be a struct that lists fields, too. Reading is strict: a key that is missing, is
// not known, or has a value of another type or range is a User error that names message and key.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/records/record.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"

namespace heddle::measuring {

/// Requests have the key "do", and answers "is", with the name of their kind.
// clang-format off
enum class Verb : uint8_t {
  Hello, Task, Compile, CompileNaive, Reference, Open, Run, Enter, Turn, RunReference, Rest, Forget,
  Measure, Drop, End
};
enum class Word : uint8_t {
  Started, Failed, Compiled, Timed, Done, Died, Result, Unable, Device, Gone, Job, Round, Compilers
};
// clang-format on
const char* to_string(Verb verb);
const char* to_string(Word word);
void from_name(const std::string& name, MeasureError& error);
constexpr const char* kind_key(Verb) { return "do"; }
constexpr const char* kind_key(Word) { return "is"; }

/// What every message may have beside its fields.
struct Envelope {
  int64_t id = 0;  ///< of a request, and of each answer to it; 0: none
  /// Of an answer: the process cannot use its device any more, and ends.
  bool device_lost = false;
};
/// Throws a User error for JSON that is no object, or has another form.
Envelope envelope_of(const Json& message);

namespace codec {

template <class T>
concept HasFields = requires { &T::template fields<T, int>; };
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T, size_t N>
inline constexpr bool is_list<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

[[noreturn]] void missing_key(const char* key);
[[noreturn]] void out_of_range(int64_t value);
/// Throws `e` again as an error of `where`.
[[noreturn]] void rethrow_at(const std::string& where, const Error& e);
/// Throws where `json` has keys that are not among `known`.
void refuse_unknown(const Json& json, const std::vector<std::string_view>& known);
/// The name under the key of a kind; "" where there is none.
std::string kind_of(const Json& message, const char* key);
[[noreturn]] void wrong_kind(const Json& message, const char* key, const std::string& wanted);

class Writer;
class Reader;

template <class T>
Json to_value(const T& value);
template <class T>
void from_value(const Json& json, T& value);

class Writer {
 public:
  explicit Writer(Json& out) : out_(out) {}
  template <class T, class... More>
  void operator()(const char* key, const T& value, const More&... more) {
    if constexpr (is_optional<T>) {
      if (value) out_[key] = to_value(*value);
    } else {
      out_[key] = to_value(value);
    }
    if constexpr (sizeof...(more) > 0) (*this)(more...);
  }
  template <class T, class... More>
  void maybe(const char* key, const T& value, const More&... more) {
    if (!(value == T{})) (*this)(key, value);
    if constexpr (sizeof...(more) > 0) maybe(more...);
  }

 private:
  Json& out_;
};

class Reader {
 public:
  explicit Reader(const Json& in) : in_(in) {}
  template <class T, class... More>
  void operator()(const char* key, T& value, More&... more) {
    if (!is_optional<T> && !in_.contains(key)) missing_key(key);
    maybe(key, value);
    if constexpr (sizeof...(more) > 0) (*this)(more...);
  }
  template <class T, class... More>
  void maybe(const char* key, T& value, More&... more) {
    known_.push_back(key);
    if (const Json* found = in_.find(key)) {
      try {
        if constexpr (is_optional<T>) {
          from_value(*found, value.emplace());
        } else {
          from_value(*found, value);
        }
      } catch (const Error& e) {
        rethrow_at(std::string("key '") + key + "'", e);
      }
    }
    if constexpr (sizeof...(more) > 0) maybe(more...);
  }
  void know(const char* key) { known_.push_back(key); }
  void finish() const { refuse_unknown(in_, known_); }

 private:
  const Json& in_;
  std::vector<std::string_view> known_;
};

template <class T>
Json to_value(const T& value) {
  if constexpr (is_list<T>) {
    Json out = Json::array();
    for (const auto& element : value) out.push_back(to_value(element));
    return out;
  } else if constexpr (is_optional<T>) {  // in a list
    return value ? to_value(*value) : Json();
  } else if constexpr (HasFields<T>) {
    Json out = Json::object();
    Writer writer(out);
    T::fields(value, writer);
    return out;
  } else if constexpr (std::is_enum_v<T>) {
    return Json(to_string(value));
  } else {
    return Json(value);
  }
}

template <class T>
void from_list(const Json& json, T& list) {
  const std::vector<Json>& elements = json.elements();
  if constexpr (is_vector<T>) list.resize(elements.size());
  if (elements.size() != list.size())
    throw_user_error("a list of " + std::to_string(elements.size()) + " elements, and it has " +
                     std::to_string(list.size()));
  for (size_t i = 0; i < elements.size(); ++i) {
    try {
      from_value(elements[i], list[i]);
    } catch (const Error& e) {
      rethrow_at("element " + std::to_string(i), e);
    }
  }
}

template <class T>
void from_value(const Json& json, T& value) {
  if constexpr (std::same_as<T, Json>) {
    value = json;
  } else if constexpr (std::same_as<T, bool>) {
    value = json.as_bool();
  } else if constexpr (std::integral<T>) {
    const int64_t wide = json.as_int();
    if (!std::in_range<T>(wide)) out_of_range(wide);
    value = static_cast<T>(wide);
  } else if constexpr (std::floating_point<T>) {
    value = json.as_double();
  } else if constexpr (std::same_as<T, std::string>) {
    value = json.as_string();
  } else if constexpr (is_list<T>) {
    from_list(json, value);
  } else if constexpr (is_optional<T>) {  // in a list
    if (!json.is_null()) from_value(json, value.emplace());
  } else if constexpr (std::is_enum_v<T>) {
    from_name(json.as_string(), value);
  } else {
    if (!json.is_object()) throw_user_error("it is no object");
    Reader reader(json);
    T::fields(value, reader);
    reader.finish();
  }
}

template <class M>
bool is(const Json& message) {
  return kind_of(message, kind_key(M::kKind)) == to_string(M::kKind);
}

}  // namespace codec

template <class M>
Json encode(const M& message, const Envelope& envelope = {}) {
  Json out = Json::object({{kind_key(M::kKind), to_string(M::kKind)}});
  if (envelope.id != 0) out["id"] = Json(envelope.id);
  if (envelope.device_lost) out["device_lost"] = Json(true);
  codec::Writer writer(out);
  M::fields(message, writer);
  return out;
}

/// Throws a User error for JSON that is no such message.
template <class M>
M decode(const Json& json) {
  if (!codec::is<M>(json)) codec::wrong_kind(json, kind_key(M::kKind), to_string(M::kKind));
  try {
    M out;
    codec::Reader reader(json);
    for (const char* key : {kind_key(M::kKind), "id", "device_lost"}) reader.know(key);
    M::fields(out, reader);
    reader.finish();
    if constexpr (requires { out.check(); }) out.check();
    return out;
  } catch (const Error& e) {
    codec::rethrow_at(std::string("message '") + to_string(M::kKind) + "'", e);
  }
}

namespace codec {

template <class V>
struct AnyOf;
template <class First, class... Others>
struct AnyOf<std::variant<First, Others...>> {
  using Variant = std::variant<First, Others...>;
  static Variant decode(const Json& json) {
    std::optional<Variant> out;
    const bool found = (try_one<First>(json, out) || (try_one<Others>(json, out) || ...));
    if (!found) {
      std::string names = to_string(First::kKind);
      ((names += std::string("', '") + to_string(Others::kKind)), ...);
      wrong_kind(json, kind_key(First::kKind), names);
    }
    return *std::move(out);
  }

 private:
  template <class M>
  static bool try_one(const Json& json, std::optional<Variant>& out) {
    if (!is<M>(json)) return false;
    out = measuring::decode<M>(json);
    return true;
  }
};

}  // namespace codec

/// One of the messages of a variant. Throws a User error for JSON that is none of them.
template <class V>
V decode_any(const Json& json) {
  return codec::AnyOf<V>::decode(json);
}

}  // namespace heddle::measuring
