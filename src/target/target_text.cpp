#include "target/target_text.h"

#include <algorithm>
#include <charconv>

#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle::internal {

void TargetText::fail(const std::string& problem, std::string help) const {
  throw_user_error("target '" + std::string(text) + "': " + problem, {}, std::move(help));
}

std::string TargetText::value_of(std::string_view name, std::string fallback) const {
  for (const Option& option : options) {
    if (option.name == name) return option.value;
  }
  return fallback;
}

std::int64_t TargetText::number(std::string_view option, std::string_view value, bool is_size,
                                std::int64_t low, std::int64_t high) const {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  auto [stop, error] = std::from_chars(value.data(), end, number);
  bool good = error == std::errc() && number >= 0;
  if (good && stop + 1 == end && is_size && (*stop == 'K' || *stop == 'M')) {
    const std::int64_t unit = *stop == 'K' ? 1 << 10 : 1 << 20;
    good = !__builtin_mul_overflow(number, unit, &number);
    ++stop;
  }
  if (!good || stop != end || number < low || number > high) {
    fail("-" + std::string(option) + "=" + std::string(value) + " is not in " +
         std::to_string(low) + ".." + std::to_string(high));
  }
  return number;
}

TargetText parse_options(std::string_view text, const std::vector<std::string>& words,
                         const std::vector<std::string>& names) {
  TargetText parsed{text, {}};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    if (word.size() < 2 || word[0] != '-' || equals == std::string::npos) {
      parsed.fail("'" + word + "' is no option", "options look like -" + names[0] + "=name");
    }
    const std::string name = word.substr(1, equals - 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::vector<std::string> written;
      for (const std::string& n : names) written.push_back("-" + n);
      const std::string guess = did_you_mean("-" + name, written);
      parsed.fail("unknown option '-" + name + "'",
                  guess.empty() ? "options are " + join(written) : guess);
    }
    if (equals + 1 == word.size()) parsed.fail("option '-" + name + "' has no value");
    for (const TargetText::Option& earlier : parsed.options) {
      if (earlier.name == name) parsed.fail("option '-" + name + "' is given twice");
    }
    parsed.options.push_back({name, word.substr(equals + 1)});
  }
  return parsed;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string option_text(std::string_view name, std::int64_t value, bool is_size) {
  const bool kilobytes = is_size && value > 0 && value % 1024 == 0;
  return " -" + std::string(name) + "=" +
         (kilobytes ? std::to_string(value / 1024) + "K" : std::to_string(value));
}

}  // namespace heddle::internal
