// Names in the text: identifiers that differ from each other and from the names of C++ and CUDA.
#pragma once

#include <map>
#include <set>
#include <string>

namespace heddle::cuda {

class Names {
 public:
  Names();
  /// `wanted` as an identifier, with a number appended when it is taken.
  std::string unique(const std::string& wanted);
  /// `stem` and the next number: "i0", "i1".
  std::string numbered(const std::string& stem);

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> next_;
};

/// Whether `name` is an identifier.
bool is_identifier(const std::string& name);

}  // namespace heddle::cuda
