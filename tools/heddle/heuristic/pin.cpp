#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "heddle/support/error.h"
#include "heuristic/heuristic.h"

namespace heddle::cli {
namespace {

[[noreturn]] void refuse(const std::string& cores) {
  throw_user_error("'" + cores + "' is no list of cores", {}, "such as --cores 0,1 or --cores 4-7");
}

std::optional<int> number_of(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

cpu_set_t set_of(const std::string& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const std::string_view text = cores;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::size_t dash = std::min(part.find('-'), part.size());
    const std::optional<int> first = number_of(part.substr(0, dash));
    const std::optional<int> last = dash < part.size() ? number_of(part.substr(dash + 1)) : first;
    if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE) refuse(cores);
    for (int c = *first; c <= *last; ++c) CPU_SET(static_cast<unsigned>(c), &set);
    begin = end + 1;
  }
  return set;
}

}  // namespace

void pin_to_cores(const std::string& cores) {
  const cpu_set_t wanted = set_of(cores);
  if (::sched_setaffinity(0, sizeof wanted, &wanted) != 0)
    throw_user_error("this process cannot run on cores " + cores + ": " + std::strerror(errno), {},
                     "`nproc` tells how many there are");
  cpu_set_t got;
  if (::sched_getaffinity(0, sizeof got, &got) == 0 && !CPU_EQUAL(&wanted, &got))
    throw_user_error("not all cores of '" + cores + "' are there", {},
                     "`nproc` tells how many there are");
}

}  // namespace heddle::cli
