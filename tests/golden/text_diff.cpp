#include "golden/text_diff.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <vector>

namespace heddle::testing {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

struct Line {
  char mark;  ///< ' ' in both, '-' in the first, '+' in the second
  std::string text;
  size_t number;  ///< in the second text, from 1
};

// By the longest common subsequence of lines.
std::vector<Line> aligned(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  // common[i][j]: of a from i and b from j.
  std::vector<std::vector<uint32_t>> common(a.size() + 1, std::vector<uint32_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<Line> out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      out.push_back({' ', a[i++], ++j});
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      out.push_back({'-', a[i++], j + 1});
    } else {
      out.push_back({'+', b[j], j + 1});
      ++j;
    }
  }
  return out;
}

}  // namespace

std::string unified_diff(const std::string& before, const std::string& after, size_t most_lines) {
  constexpr size_t kContext = 2;
  const std::vector<Line> lines = aligned(lines_of(before), lines_of(after));
  std::vector<bool> shown(lines.size(), false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].mark == ' ') continue;
    const size_t end = std::min(lines.size(), i + kContext + 1);
    for (size_t k = i - std::min(i, kContext); k < end; ++k) shown[k] = true;
  }
  const auto wanted = static_cast<size_t>(std::count(shown.begin(), shown.end(), true));
  std::string out;
  size_t written = 0;
  for (size_t i = 0; i < lines.size() && written < most_lines; ++i) {
    if (!shown[i]) continue;
    if (i == 0 || !shown[i - 1]) out += "@@ line " + std::to_string(lines[i].number) + " @@\n";
    out += lines[i].mark + lines[i].text + "\n";
    ++written;
  }
  if (written < wanted) out += "... and " + std::to_string(wanted - written) + " more lines\n";
  return out;
}

}  // namespace heddle::testing
