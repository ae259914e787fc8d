// Which values of which knobs of which meta-template were drawn, of those that were offered.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include "heddle/schedule/template.h"

namespace heddle::selftest {

struct Coverage {
  struct Values {
    std::set<int64_t> offered, drawn;
  };
  std::map<std::string, std::map<std::string, Values>> knobs;  ///< meta-template -> knob
  std::map<std::string, int64_t> alternatives;                 ///< pairs of each rule(parameters)

  void count(const Template& t, const Config& c);
  /// By its name, "winograd(tile=4)@3".
  void count_alternative(const std::string& name);
  /// Values that depend on the shape (block sizes) are many: only their number is printed.
  void print(std::ostream& out) const;
};

}  // namespace heddle::selftest
