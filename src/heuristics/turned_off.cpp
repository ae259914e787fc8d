#include "heuristics/turned_off.h"

#include <algorithm>
#include <set>

#include "heddle/heuristics/heuristic.h"
#include "support/environment.h"

namespace heddle::learning {

std::string why_turned_off(const std::string& heuristic) {
  const std::string text = internal::environment_value("HEDDLE_HEURISTICS");
  if (text.empty()) return "";
  const std::string off_by = "turned off by HEDDLE_HEURISTICS=" + text;
  if (text == "off") return off_by;
  std::set<std::string> off, alone;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const bool minus = text[begin] == '-';
    const std::size_t first = std::min(end, begin + (minus ? 1 : 0));
    const std::string name = text.substr(first, end - first);
    if (find_heuristic(name) == nullptr)
      return off_by + ", which names no heuristic by '" + name + "'";
    (minus ? off : alone).insert(name);
    begin = end + 1;
  }
  const bool answers = !off.contains(heuristic) && (alone.empty() || alone.contains(heuristic));
  return answers ? "" : off_by;
}

}  // namespace heddle::learning
