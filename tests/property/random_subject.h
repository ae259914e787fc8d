// Random subjects of the command line: each kind that `heddle list` shows, with every parameter.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "heddle/support/rng.h"
#include "subjects/subjects.h"

namespace heddle::testing {

/// Sizes that vectors divide, sizes that nothing divides, and those of networks.
inline int64_t random_extent(const cli::Parameter& p, Rng& rng) {
  static const std::map<std::string, std::vector<int64_t>> by_name = {
      {"r", {1, 2, 3, 3, 4, 5, 7, 11}},
      {"s", {1, 3, 7, 64, 100}},
      {"stride", {1, 1, 2, 3}},
      {"pad", {0, 0, 1, 2, 3}},
      {"output_padding", {0, 0, 1}},
      {"dilation", {1, 1, 2, 3}},
      {"multiplier", {1, 1, 2}},
      {"groups", {1, 1, 1, 2, 4, 8, 32}},
      {"scale", {2, 3}},
      {"h", {1, 3, 7, 8, 12, 14, 18, 28, 33, 56}},
      {"w", {1, 3, 7, 8, 12, 14, 18, 28, 33, 56, 112}},
      {"d", {1, 4, 16, 32, 40, 64, 80, 128}},
      {"c", {1, 2, 3, 8, 13, 16, 32, 48, 64, 96, 100, 256, 768}},
      {"b", {1, 2, 3, 12, 40}},
      {"kv", {0, 0, 1, 2, 4}},
      {"l", {1, 7, 16, 64, 100, 128, 197, 512}},
      {"batch", {1, 2, 5, 16, 57, 100, 128}}};
  static const std::vector<int64_t> images = {1, 1, 2, 5, 8, 32},
                                    sizes = {1,   2,   3,    5,    7,    8,    10,  16,  31,
                                             33,  48,  64,   77,   100,  128,  197, 256, 500,
                                             512, 768, 1000, 1024, 2048, 3072, 4096};
  if (p.name == "n" && p.fallback == "1") return rng.choose(images);
  // "=h": as wide as high, or as another image is high.
  const auto it = by_name.find(p.fallback.starts_with("=") ? p.fallback.substr(1) : p.name);
  return rng.choose(it != by_name.end() ? it->second : sizes);
}

/// A subject as a user types it. It may make no sense: then make_problem refuses it.
inline std::string random_subject(Rng& rng) {
  const cli::SubjectKind& kind = rng.choose(cli::subject_kinds());
  std::vector<std::string> given;
  std::string channels;
  for (const cli::Parameter& p : kind.grammar.parameters) {
    std::string value;
    if (!p.fallback.empty() && rng.chance(0.4)) continue;
    if (!p.choices.empty()) {
      value = rng.choose(p.choices);
    } else if (p.most == 1) {
      value = rng.chance(0.5) ? "1" : "0";
    } else {
      value = std::to_string(std::clamp(random_extent(p, rng), p.least, p.most));
    }
    // As many filters, or groups, as channels: each channel by itself, and products of squares.
    if (p.name == "c") channels = value;
    if ((p.name == "groups" || p.name == "k") && !channels.empty() && rng.chance(0.3))
      value = channels;
    given.push_back(p.name + "=" + value);
  }
  return kind.grammar.kind + ":" + cli::join(given, ",");
}

}  // namespace heddle::testing
