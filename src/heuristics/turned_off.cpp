#include "heuristics/turned_off.h"

#include <set>
#include <vector>

#include "heddle/heuristics/heuristic.h"
#include "heddle/support/error.h"
#include "support/edit_distance.h"
#include "support/environment.h"
#include "target/cpu_table.h"

namespace heddle::learning {
namespace {

constexpr const char* kVariable = "HEDDLE_HEURISTICS";

/// What the variable says.
struct Switches {
  bool none = false;            ///< "off"
  std::set<std::string> off;    ///< those with a minus
  std::set<std::string> alone;  ///< those without; empty: all
};

[[noreturn]] void fail(const std::string& text, const std::string& name) {
  std::vector<std::string> known = {"off"};
  for (const Heuristic* h : all_heuristics()) known.push_back(h->name);
  std::string help = did_you_mean(name, known);
  if (!help.empty()) help += " ";
  help += "the names are";
  for (const std::string& k : known) help += " " + k;
  throw_user_error(std::string(kVariable) + "=" + text + " names no heuristic by '" + name + "'",
                   {}, help);
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

Switches switches_of(const std::string& text) {
  Switches s;
  if (text == "off") {
    s.none = true;
    return s;
  }
  for (const std::string& piece : internal::split(without_spaces(text), ',')) {
    const bool minus = piece[0] == '-';
    const std::string name = piece.substr(minus ? 1 : 0);
    if (find_heuristic(name) == nullptr) fail(text, name);
    (minus ? s.off : s.alone).insert(name);
  }
  return s;
}

}  // namespace

void check_heuristics_variable() { (void)switches_of(internal::environment_value(kVariable)); }

std::string why_turned_off(const std::string& heuristic) {
  const std::string text = internal::environment_value(kVariable);
  if (text.empty()) return "";
  const Switches s = switches_of(text);
  const bool answers =
      !s.none && !s.off.contains(heuristic) && (s.alone.empty() || s.alone.contains(heuristic));
  return answers ? "" : "turned off by " + std::string(kVariable) + "=" + text;
}

}  // namespace heddle::learning
