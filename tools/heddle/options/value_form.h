// How the value of an option is written: what stands for it in the help, what is legal, an example,
// and the check. All options whose values are of one form answer a mistake with the same words.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace heddle::cli {

/// Why a value is not legal, and what may have been meant. Both may be empty.
struct Mistake {
  std::string reason, hint;
};

/// How a list is written: one value each time that the option is given, several between commas, or
/// all words up to the next option.
enum class Several : uint8_t { Repeated, Commas, Words };

struct ValueForm {
  std::string word =
      {};  ///< stands for the value in the help, such as "N"; empty: there is no value
  std::string legal = {};    ///< "a whole number from 1 to 1024"
  std::string example = {};  ///< a legal value
  std::function<std::optional<Mistake>(const std::string&)> mistake =
      {};                               ///< none: all text is legal
  Several several = Several::Repeated;  ///< of a list
};

/// An option without a value.
ValueForm no_value();
/// Text that the command itself checks.
ValueForm text(std::string word, std::string legal, std::string example);
ValueForm whole_number(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());
ValueForm number(double least, double most);
ValueForm one_of(std::vector<std::string> words);
/// Text that `read` takes without a User error.
ValueForm read_by(std::string word, std::string legal, std::string example,
                  std::function<void(const std::string&)> read);
/// A file that is there.
ValueForm file_there(std::string example);
/// A folder that is there.
ValueForm folder_there();

/// The same form in a list.
ValueForm commas(ValueForm form);
ValueForm words(ValueForm form);

/// The whole text as a number; none where it is no such number.
std::optional<int64_t> as_whole_number(const std::string& text);
std::optional<double> as_number(const std::string& text);

}  // namespace heddle::cli
