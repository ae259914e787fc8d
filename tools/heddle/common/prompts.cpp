#include "common/prompts.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <sstream>

#include "heddle/support/error.h"
#include "options/value_form.h"
#include "support/files/file.h"

namespace heddle::cli {

std::vector<int64_t> parse_prompt(const std::string& text) {
  std::string spaced = text;
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  std::istringstream words(spaced);
  std::vector<int64_t> tokens;
  for (std::string word; words >> word;) {
    const std::optional<int64_t> token = as_whole_number(word);
    if (!token || *token < 0 || *token > INT_MAX)
      throw_user_error("'" + word + "' is no token", {}, "tokens are numbers: 15496,11,995");
    tokens.push_back(*token);
  }
  if (tokens.empty()) throw_user_error("a prompt has no tokens", {}, "give at least one");
  return tokens;
}

Prompts prompts_of(const std::vector<std::string>& lists, const std::string& file) {
  Prompts prompts;
  for (const std::string& list : lists) prompts.push_back(parse_prompt(list));
  if (!file.empty()) {
    std::istringstream lines(read_file(file));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      try {
        prompts.push_back(parse_prompt(line));
      } catch (const Error& e) {
        throw_user_error(file + ":" + std::to_string(number) + ": " + e.message, {}, e.help);
      }
    }
  }
  if (prompts.empty())
    throw_user_error("there is no prompt", {}, "give one: --prompt-ids 15496,11,995, or --prompts");
  return prompts;
}

Prompts for_batch(Prompts prompts, int64_t batch) {
  if (prompts.size() == 1) prompts.resize(static_cast<size_t>(batch), prompts[0]);
  if (batch != 1 && std::ssize(prompts) != batch)
    throw_user_error(std::to_string(prompts.size()) + " prompts are given for a batch of " +
                         std::to_string(batch),
                     {}, "leave --batch out, or give one prompt for all");
  return prompts;
}

}  // namespace heddle::cli
