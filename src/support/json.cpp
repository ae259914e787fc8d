#include "heddle/support/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle {
namespace {

// The deepest nesting that is accepted, because values are destroyed and compared by recursion.
constexpr std::size_t kMaxDepth = 256;

const char* kind_name(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::Null: return "null";
    case Json::Kind::Bool: return "a bool";
    case Json::Kind::Int: return "an integer";
    case Json::Kind::Double: return "a number";
    case Json::Kind::String: return "a string";
    case Json::Kind::Array: return "an array";
    case Json::Kind::Object: return "an object";
  }
  return "?";
}

std::string line_and_column(std::string_view text, std::size_t position) {
  position = std::min(position, text.size());
  std::size_t line = 1, column = 1;
  for (char c : text.substr(0, position)) {
    if (c == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return std::to_string(line) + ":" + std::to_string(column);
}

}  // namespace

// Receives the parser's events. Returning false stops the parse; `problem_` then says why.
class JsonBuilder {
 public:
  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(Json(value)); }
  bool number_integer(std::int64_t value) { return put(Json(value)); }
  bool number_unsigned(std::uint64_t value) {
    return std::in_range<std::int64_t>(value) ? put(Json(value))
                                              : put(Json(static_cast<double>(value)));
  }
  bool number_float(double value, const std::string&) { return put(Json(value)); }
  bool string(std::string& value) { return put(Json(std::move(value))); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool key(std::string& name) {
    keys_.back() = std::move(name);
    return true;
  }
  bool end_object() {
    std::vector<std::string_view> names;
    for (const auto& member : stack_.back().members()) names.push_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) {
      problem_ = "key '" + std::string(*twice) + "' appears twice in an object";
      return false;
    }
    return end_array();
  }
  bool end_array() {
    Json value = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    return put(std::move(value));
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) {
    position_ = position > 0 ? position - 1 : 0;
    problem_ = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." -> the
    // end
    if (std::size_t cut = problem_.find("syntax error"); cut != std::string::npos) {
      problem_.erase(0, cut);
    } else if (cut = problem_.find("] "); cut != std::string::npos) {
      problem_.erase(0, cut + 2);
    }
    return false;
  }

  Json result_;
  std::string problem_ = "not valid JSON";
  std::size_t position_ = std::string::npos;

 private:
  bool open(Json value) {
    if (stack_.size() >= kMaxDepth) {
      problem_ = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
      return false;
    }
    stack_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool put(Json value) {
    if (stack_.empty()) {
      result_ = std::move(value);
    } else if (auto* elements = std::get_if<std::vector<Json>>(&stack_.back().value_)) {
      elements->push_back(std::move(value));
    } else {
      std::get<std::vector<Json::Member>>(stack_.back().value_)
          .emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  std::vector<Json> stack_;
  std::vector<std::string> keys_;  // the key that the next value of each open object belongs to
};

Json::Json() : value_(nullptr) {}
Json::Json(std::nullptr_t) : value_(nullptr) {}
Json::Json(double value) : value_(value) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> elements) {
  Json result;
  result.value_ = std::vector<Json>(elements);
  return result;
}

Json Json::object(std::initializer_list<Member> members) {
  Json result;
  result.value_ = std::vector<Member>();
  for (const Member& member : members) result[member.first] = member.second;
  return result;
}

Json Json::parse(std::string_view text, std::string_view source) {
  JsonBuilder builder;
  if (!nlohmann::json::sax_parse(text, &builder)) {
    std::string place(source);
    if (builder.position_ != std::string::npos) {
      place += ":" + line_and_column(text, builder.position_);
    }
    throw_user_error(place + ": " + builder.problem_);
  }
  return std::move(builder.result_);
}

bool Json::as_bool() const {
  if (!is_bool()) wrong_kind("a bool");
  return std::get<bool>(value_);
}

std::int64_t Json::as_int() const {
  if (!is_int()) wrong_kind("an integer");
  return std::get<std::int64_t>(value_);
}

double Json::as_double() const {
  if (is_int()) return static_cast<double>(std::get<std::int64_t>(value_));
  if (kind() != Kind::Double) wrong_kind("a number");
  return std::get<double>(value_);
}

const std::string& Json::as_string() const {
  if (!is_string()) wrong_kind("a string");
  return std::get<std::string>(value_);
}

std::size_t Json::size() const {
  if (is_array()) return elements().size();
  if (is_object()) return members().size();
  wrong_kind("an array or an object");
}

const std::vector<Json>& Json::elements() const {
  if (!is_array()) wrong_kind("an array");
  return std::get<std::vector<Json>>(value_);
}

const Json& Json::at(std::size_t index) const {
  if (index >= elements().size()) {
    throw_user_error("json: no element " + std::to_string(index) + " in an array of " +
                     std::to_string(elements().size()));
  }
  return elements()[index];
}

void Json::push_back(Json element) {
  if (is_null()) value_ = std::vector<Json>();
  if (!is_array()) wrong_kind("an array");
  std::get<std::vector<Json>>(value_).push_back(std::move(element));
}

const std::vector<Json::Member>& Json::members() const {
  if (!is_object()) wrong_kind("an object");
  return std::get<std::vector<Member>>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& member : members()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (!is_object()) wrong_kind("an object");
  if (const Json* value = find(key)) return *value;
  std::vector<std::string> names;
  for (const Member& member : members()) names.push_back(member.first);
  throw_user_error("json: missing key '" + std::string(key) + "'", {}, did_you_mean(key, names));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = std::vector<Member>();
  if (!is_object()) wrong_kind("an object");
  if (const Json* value = find(key)) return const_cast<Json&>(*value);
  return std::get<std::vector<Member>>(value_).emplace_back(std::string(key), Json()).second;
}

std::int64_t Json::get_int(std::string_view key, std::int64_t fallback) const {
  const Json* value = find(key);
  return value != nullptr ? value->as_int() : fallback;
}

double Json::get_double(std::string_view key, double fallback) const {
  const Json* value = find(key);
  return value != nullptr ? value->as_double() : fallback;
}

bool Json::get_bool(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  return value != nullptr ? value->as_bool() : fallback;
}

std::string Json::get_string(std::string_view key, std::string_view fallback) const {
  const Json* value = find(key);
  return value != nullptr ? value->as_string() : std::string(fallback);
}

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

void Json::int_too_large() {
  throw_user_error("json: an unsigned integer above 2^63-1 has no exact JSON form here", {},
                   "write it as a hexadecimal string");
}

void Json::wrong_kind(const char* wanted) const {
  throw_user_error(std::string("json: expected ") + wanted + ", found " + kind_name(kind()));
}

}  // namespace heddle
