#include "fuzz/mutate.h"

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "heddle/support/error.h"

namespace heddle::fuzz {
namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t bound) { return bound == 0 ? 0 : random() % bound; }

const int64_t kNumbers[] = {0,
                            -1,
                            1,
                            2,
                            3,
                            4,
                            5,
                            7,
                            8,
                            16,
                            31,
                            32,
                            63,
                            64,
                            127,
                            128,
                            255,
                            1000,
                            4096,
                            65535,
                            -2,
                            -3,
                            -8,
                            -64,
                            1 << 20,
                            1 << 30,
                            2147483647,
                            -2147483648LL,
                            4294967296LL,
                            int64_t{1} << 40,
                            int64_t{1} << 62,
                            std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()};

void collect(const Json& value, std::vector<const Json*>& all) {
  all.push_back(&value);
  if (value.is_array()) {
    for (const Json& element : value.elements()) collect(element, all);
  } else if (value.is_object()) {
    for (const Json::Member& member : value.members()) collect(member.second, all);
  }
}

/// `value` with `changed` in place of `at`.
Json replaced(const Json& value, const Json* at, const Json& changed) {
  if (&value == at) return changed;
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& element : value.elements()) out.push_back(replaced(element, at, changed));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, member] : value.members()) out[key] = replaced(member, at, changed);
  return out;
}

Json of_any_kind(Random& random) {
  switch (below(random, 7)) {
    case 0: return {};
    case 1: return Json(below(random, 2) == 0);
    case 2: return Json(0.5);
    case 3: return Json("");
    case 4: return Json::array();
    case 5: return Json::object();
    default: return Json(kNumbers[below(random, std::size(kNumbers))]);
  }
}

/// An element taken out, doubled, or two exchanged.
Json changed_list(const Json& value, Random& random) {
  std::vector<Json> elements = value.elements();
  if (elements.empty()) return Json::array({of_any_kind(random)});
  const size_t at = below(random, elements.size());
  switch (below(random, 3)) {
    case 0: elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: elements.push_back(Json(elements[at])); break;
    default: std::swap(elements[at], elements[below(random, elements.size())]); break;
  }
  return Json::array_of(elements);
}

Json without_member(const Json& value, Random& random) {
  const size_t leave_out = below(random, value.size());
  Json out = Json::object();
  for (size_t i = 0; i < value.size(); ++i) {
    if (i != leave_out) out[value.members()[i].first] = value.members()[i].second;
  }
  return out;
}

Json changed(const Json& value, const std::vector<const Json*>& others, Random& random,
             const ByteMutator& bytes) {
  const size_t way = below(random, 10);
  if (way == 0) return of_any_kind(random);
  if (way <= 3) {
    const Json& other = *others[below(random, others.size())];
    if (other.kind() == value.kind() || way == 1) return other;
  }
  switch (value.kind()) {
    case Json::Kind::Int: {
      if (below(random, 2) == 0) return Json(kNumbers[below(random, std::size(kNumbers))]);
      const auto step = static_cast<uint64_t>(1 + below(random, 3));
      const auto number = static_cast<uint64_t>(value.as_int());
      return Json(static_cast<int64_t>(below(random, 2) == 0 ? number + step : number - step));
    }
    case Json::Kind::Double:
      return Json(value.as_double() * (below(random, 2) == 0 ? -1e30 : 1e300));
    case Json::Kind::Bool: return Json(!value.as_bool());
    case Json::Kind::String: return Json(bytes(value.as_string()));
    case Json::Kind::Array: return changed_list(value, random);
    case Json::Kind::Object: return without_member(value, random);
    case Json::Kind::Null: break;
  }
  return of_any_kind(random);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::string mutate_bytes(const std::string& text, uint64_t seed) {
  Random random(seed);
  std::string out = text;
  const size_t changes = 1 + below(random, 3);
  for (size_t i = 0; i < changes; ++i) {
    const size_t at = below(random, out.size()), count = 1 + below(random, 4);
    switch (out.empty() ? 2 : below(random, 4)) {
      case 0: out[at] = static_cast<char>(random()); break;
      case 1: out.erase(at, count); break;
      case 2: out.insert(at, count, static_cast<char>(random())); break;
      default: out.insert(at, out.substr(below(random, out.size()), 1 + below(random, 16))); break;
    }
  }
  return out;
}

std::string mutate_json_lines(const std::string& text, uint64_t seed, const ByteMutator& bytes) {
  Random random(seed);
  std::vector<std::string> lines = lines_of(text);
  std::string& line = lines[below(random, lines.size())];
  try {
    const Json whole = Json::parse(line);
    std::vector<const Json*> nodes;
    collect(whole, nodes);
    const Json* at = nodes[below(random, nodes.size())];
    line = replaced(whole, at, changed(*at, nodes, random, bytes)).dump();
  } catch (const Error&) {
    return bytes(text);
  }
  std::string out;
  for (const std::string& each : lines) out += (out.empty() ? "" : "\n") + each;
  return out;
}

}  // namespace heddle::fuzz
