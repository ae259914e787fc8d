// Changes to inputs that keep their format. A random change of bytes seldom gives valid JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "heddle/support/json.h"

namespace heddle::fuzz {

/// Changes the bytes of a text.
using ByteMutator = std::function<std::string(const std::string&)>;

/// Changes, removes, inserts or copies a few random bytes. libFuzzer has better strategies.
std::string mutate_bytes(const std::string& text, uint64_t seed);

/// `text` with one change to the tree of one of its lines: a value replaced, taken out, doubled, or
/// put in another's place. What is no JSON, and strings, are changed by `bytes`.
std::string mutate_json_lines(const std::string& text, uint64_t seed, const ByteMutator& bytes);

}  // namespace heddle::fuzz
