// The text form of targets: words, options and numbers, shared by the kinds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/target/target.h"

namespace heddle::internal {

/// The text of a target, for messages, and the options after its kind.
struct TargetText {
  std::string_view text;
  struct Option {
    std::string name;
    std::string value;
  };
  std::vector<Option> options;

  /// Throws the User error about this text.
  [[noreturn]] void fail(const std::string& problem, std::string help = {}) const;
  std::string value_of(std::string_view name, std::string fallback) const;
  /// A number within low..high; sizes may end in K or M.
  std::int64_t number(std::string_view option, std::string_view value, bool is_size,
                      std::int64_t low, std::int64_t high) const;
};

/// Throws a User error for a word that is none of these options ("mcpu"), or one given twice.
TargetText parse_options(std::string_view text, const std::vector<std::string>& words,
                         const std::vector<std::string>& names);

std::string join(const std::vector<std::string>& names);
/// "-l2=60M", in the largest unit that divides it if it is a size.
std::string option_text(std::string_view name, std::int64_t value, bool is_size);

Target parse_cuda(std::string_view text, const std::vector<std::string>& words);
std::string cuda_text(const Target& target);
bool cuda_runs_here(const Gpu& gpu);

}  // namespace heddle::internal
