// The reason why a rule, or a pattern that is looked for, does not fit a stage.
#pragma once

#include <string>
#include <utility>

namespace heddle {

/// A reason as one clause of text, whose subject is the stage; without text the rule fits.
class WhyNot {
 public:
  WhyNot() = default;
  WhyNot(std::string text) : text_(std::move(text)) {}  // NOLINT: a text is a reason
  WhyNot(const char* text) : text_(text) {}             // NOLINT: likewise
  /// The stage is of another kind than the rule is made for, such as an addition for Winograd:
  /// `what` completes "not ...". Lists of alternatives leave such stages out.
  static WhyNot other_kind(const std::string& what) {
    WhyNot why("not " + what);
    why.other_kind_ = true;
    return why;
  }

  bool empty() const { return text_.empty(); }  ///< whether the rule fits
  bool is_other_kind() const { return other_kind_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool other_kind_ = false;
};

}  // namespace heddle
