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

constexpr const char *kAnswering = "HEDDLE_HEURISTICS", *kCollecting = "HEDDLE_COLLECT";

/// What a variable says.
struct Switches {
  bool none = false;            ///< "off"
  std::set<std::string> off;    ///< those with a minus
  std::set<std::string> alone;  ///< those without; empty: all
};

[[noreturn]] void fail(const char* variable, const std::string& text, const std::string& name) {
  std::vector<std::string> known;
  if (variable == kAnswering) known.emplace_back("off");
  for (const Heuristic* h : all_heuristics()) known.push_back(h->name);
  std::string help = did_you_mean(name, known);
  if (!help.empty()) help += " ";
  help += "the names are";
  for (const std::string& k : known) help += " " + k;
  throw_user_error(std::string(variable) + "=" + text + " names no heuristic by '" + name + "'", {},
                   help);
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

Switches switches_of(const char* variable) {
  const std::string text = internal::environment_value(variable);
  Switches s;
  if (text == "off") {
    s.none = true;
    return s;
  }
  for (const std::string& piece : internal::split(without_spaces(text), ',')) {
    const bool minus = piece[0] == '-';
    const std::string name = piece.substr(minus ? 1 : 0);
    if (find_heuristic(name) == nullptr) fail(variable, text, name);
    (minus ? s.off : s.alone).insert(name);
  }
  return s;
}

}  // namespace

void check_heuristics_variables() {
  (void)switches_of(kAnswering);
  (void)collected_heuristics();
}

std::string why_turned_off(const std::string& heuristic) {
  const std::string text = internal::environment_value(kAnswering);
  if (text.empty()) return "";
  const Switches s = switches_of(kAnswering);
  const bool answers =
      !s.none && !s.off.contains(heuristic) && (s.alone.empty() || s.alone.contains(heuristic));
  return answers ? "" : "turned off by " + std::string(kAnswering) + "=" + text;
}

bool all_turned_off() { return internal::environment_value(kAnswering) == "off"; }

std::set<std::string> collected_heuristics() {
  const Switches s = switches_of(kCollecting);
  if (!s.off.empty() || s.none)
    throw_user_error(std::string(kCollecting) + "=" + internal::environment_value(kCollecting) +
                         " names what is not logged",
                     {}, "name the heuristics whose problems are logged, or unset it");
  return s.alone;
}

}  // namespace heddle::learning
