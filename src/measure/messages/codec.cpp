#include "measure/messages/codec.h"

#include <algorithm>
#include <iterator>

namespace heddle::measuring {

namespace {

// In the order of the enumerators.
constexpr const char* kVerbs[] = {"hello", "task",   "compile", "compile_naive", "reference",
                                  "open",  "run",    "enter",   "turn",          "run_reference",
                                  "rest",  "forget", "measure", "drop",          "end"};
constexpr const char* kWords[] = {"started", "failed", "compiled", "timed",  "done",
                                  "died",    "result", "unable",   "device", "gone",
                                  "job",     "round",  "compilers"};
static_assert(std::size(kVerbs) == static_cast<size_t>(Verb::End) + 1);
static_assert(std::size(kWords) == static_cast<size_t>(Word::Compilers) + 1);

}  // namespace

const char* to_string(Verb verb) { return kVerbs[static_cast<size_t>(verb)]; }
const char* to_string(Word word) { return kWords[static_cast<size_t>(word)]; }

void from_name(const std::string& name, MeasureError& error) {
  error = measure_error_from_string(name);
}

Envelope envelope_of(const Json& message) {
  if (!message.is_object()) throw_user_error("a message is an object");
  return {.id = message.get_int("id", 0), .device_lost = message.get_bool("device_lost", false)};
}

namespace codec {

void missing_key(const char* key) { throw_user_error(std::string("key '") + key + "' is missing"); }

void out_of_range(int64_t value) {
  throw_user_error(std::to_string(value) + " is out of its range");
}

void rethrow_at(const std::string& where, const Error& e) {
  throw Error(e.kind, where + ": " + e.message, e.where, e.help);
}

void refuse_unknown(const Json& json, const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : json.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw_user_error("key '" + key + "' is not known");
  }
}

std::string kind_of(const Json& message, const char* key) {
  const Json* kind = message.find(key);
  return kind && kind->is_string() ? kind->as_string() : "";
}

void wrong_kind(const Json& message, const char* key, const std::string& wanted) {
  const std::string kind = kind_of(message, key);
  throw_user_error(
      (kind.empty() ? std::string("a message without a kind") : "a message '" + kind + "'") +
      " where '" + wanted + "' is expected");
}

}  // namespace codec
}  // namespace heddle::measuring
