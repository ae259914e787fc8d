// The helper functions at the head of the text: those that are used, directly or by other helpers.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cuda {

class Prelude {
 public:
  /// Marks the helper function as used and returns its name.
  std::string use(std::string_view name);

  enum class Which {
    All,
    PlainOnly,  ///< without those made of PTX: for a test that gives them another body
  };
  /// The definitions of all functions used so far, in a fixed order.
  std::string text(Which which = Which::All) const;

  /// The names of all helpers, which must not be used for other purposes.
  static std::vector<std::string> names();

 private:
  std::set<std::string, std::less<>> used_;
};

}  // namespace heddle::cuda
