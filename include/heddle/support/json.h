// Json: a JSON value. Objects keep the order in which keys were inserted, integers stay integers,
// and doubles print so that they read back to the same bits.
//
//   Json j = Json::object();
//   j["name"] = "dense";
//   j["tile"] = Json::array({4, 8});
//   Json k = Json::parse(j.dump());
//   std::int64_t first = k.at("tile").at(0).as_int();
//
// Reading a value as another kind, reading a missing key, and parsing text that is not JSON throw a
// User error. JSON has no NaN and no infinity, so these are written as null.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace heddle {

/// A JSON value. Objects keep the order of their members.
class Json {
 public:
  enum class Kind : std::uint8_t { Null, Bool, Int, Double, String, Array, Object };
  using Member = std::pair<std::string, Json>;

  Json();
  Json(std::nullptr_t);                                   // NOLINT(google-explicit-constructor)
  Json(std::same_as<bool> auto value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) : value_(checked_int(value)) {}  // NOLINT(google-explicit-constructor)
  Json(double value);                            // NOLINT(google-explicit-constructor)
  Json(std::string value);                       // NOLINT(google-explicit-constructor)
  Json(std::string_view value);                  // NOLINT(google-explicit-constructor)
  Json(const char* value);                       // NOLINT(google-explicit-constructor)
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  static Json array(std::initializer_list<Json> elements = {});
  static Json object(std::initializer_list<Member> members = {});
  /// An array of anything that converts to Json.
  template <typename Range>
  static Json array_of(const Range& range) {
    Json result = array();
    for (const auto& element : range) result.push_back(Json(element));
    return result;
  }

  /// Parses JSON. Errors name `source`, which may be a file, and the position as line:column.
  static Json parse(std::string_view text, std::string_view source = "json");

  /// The value as text: one line if indent < 0, else `indent` spaces for each level.
  std::string dump(int indent = -1) const;

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::Null; }
  bool is_bool() const { return kind() == Kind::Bool; }
  bool is_int() const { return kind() == Kind::Int; }
  bool is_number() const { return kind() == Kind::Int || kind() == Kind::Double; }
  bool is_string() const { return kind() == Kind::String; }
  bool is_array() const { return kind() == Kind::Array; }
  bool is_object() const { return kind() == Kind::Object; }

  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;  // integers are converted
  const std::string& as_string() const;

  /// The number of elements of an array or of members of an object.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // The elements of an array.
  const std::vector<Json>& elements() const;
  const Json& at(std::size_t index) const;
  void push_back(Json element);  // a null value becomes an array first

  // The members of an object. Look-up is linear, because objects are small.
  const std::vector<Member>& members() const;
  const Json& at(std::string_view key) const;
  const Json* find(std::string_view key) const;  // nullptr if there is no such key, or no object
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  Json& operator[](std::string_view key);  // inserts null if absent; null becomes an object first

  // at(0) and ["x"] would otherwise be ambiguous between an index and a null pointer.
  const Json& at(int index) const { return at(static_cast<std::size_t>(index)); }
  const Json& at(const char* key) const { return at(std::string_view(key)); }

  std::int64_t get_int(std::string_view key, std::int64_t fallback) const;
  double get_double(std::string_view key, double fallback) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string get_string(std::string_view key, std::string_view fallback) const;

  bool operator==(const Json& other) const;

 private:
  friend class JsonBuilder;

  template <std::integral T>
  static std::int64_t checked_int(T value) {
    if (!std::in_range<std::int64_t>(value)) int_too_large();
    return static_cast<std::int64_t>(value);
  }
  [[noreturn]] static void int_too_large();
  [[noreturn]] void wrong_kind(const char* wanted) const;

  // The alternatives are in the order of Kind.
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, std::vector<Json>,
               std::vector<Member>>
      value_;
};

}  // namespace heddle
