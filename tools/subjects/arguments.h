// Subjects as text: `kind[:AxBxC][,name=value...]`, such as `matmul:64x32x16,tb=1`.
//
// Each kind lists its parameters once; the text is checked against that list, and every mistake is
// answered with what would have been right. What is wrong throws a User error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::cli {

struct Parameter {
  std::string name;
  std::string fallback;  ///< "" where it must be given; "=h": the value of h
  std::string help;
  std::vector<std::string> choices = {};  ///< the words it may be; empty: a whole number
  int64_t least = 1;
  int64_t most = INT32_MAX;
};

/// A number that is 0 unless given.
Parameter flag(std::string name, std::string help);

struct Grammar {
  std::string kind;
  int positional = 0;  ///< so many leading parameters may be written as AxBxC
  std::vector<Parameter> parameters;
  std::string example;

  /// "matmul:MxNxK[,ta=0][,tb=0]"
  std::string form() const;
};

class Arguments {
 public:
  int64_t operator[](std::string_view name) const;
  const std::string& word(std::string_view name) const;

 private:
  friend Arguments parse_arguments(const Grammar& grammar, const std::string& text);
  const std::string& text(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// `text` is what follows the colon.
Arguments parse_arguments(const Grammar& grammar, const std::string& text);

/// The pieces of `text` between `separator`s; one empty piece for an empty text.
std::vector<std::string> split_text(std::string_view text, char separator);
/// "a, b, c"
std::string join(const std::vector<std::string>& parts, const std::string& separator = ", ");

}  // namespace heddle::cli
