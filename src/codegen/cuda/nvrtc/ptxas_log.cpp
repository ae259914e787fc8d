#include "codegen/cuda/nvrtc/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace heddle::cuda {
namespace {

template <typename F>
void for_each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// The text between two texts; empty where they do not occur.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t begin = line.find(before);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + before.size());
  return line.substr(0, line.find(after));
}

/// The number before a text: 24 in "..., 24 bytes smem"; 0 where the text does not occur.
int number_before(std::string_view line, std::string_view text) {
  const std::size_t end = line.find(text);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

}  // namespace

std::vector<KernelResources> parse_resources(const std::string& log) {
  // The lines about a kernel follow its "Compiling entry function". Functions that it calls have a
  // "Function properties" line with another name.
  std::vector<KernelResources> kernels;
  bool own = false;
  for_each_line(log, [&](std::string_view line) {
    const std::string_view entry = between(line, "Compiling entry function '", "'");
    if (!entry.empty()) kernels.push_back({std::string(entry)});
    if (kernels.empty()) return;
    KernelResources& k = kernels.back();
    const std::string_view function = between(line, "Function properties for ", "\n");
    if (!function.empty()) own = function == k.kernel;
    if (!own) return;
    if (line.find("bytes stack frame") != std::string_view::npos) {
      k.local_bytes = number_before(line, " bytes stack frame");
      k.spill_stores = number_before(line, " bytes spill stores");
      k.spill_loads = number_before(line, " bytes spill loads");
    } else if (line.find(": Used ") != std::string_view::npos) {
      k.registers = number_before(line, " registers");
      k.barriers = number_before(line, " barriers");
      k.static_smem = number_before(line, " bytes smem");
    }
  });
  std::sort(kernels.begin(), kernels.end(),
            [](const auto& a, const auto& b) { return a.kernel < b.kernel; });
  return kernels;
}

std::vector<std::string> parse_warnings(const std::string& log) {
  std::vector<std::string> warnings;
  for_each_line(log, [&](std::string_view line) {
    for (std::string_view code : {"(C74", "(C75"}) {
      if (line.find(code) != std::string_view::npos) warnings.emplace_back(line);
    }
  });
  return warnings;
}

int first_error_line(const std::string& log, const std::string& file) {
  int first = 0;
  for_each_line(log, [&](std::string_view line) {
    if (first != 0 || !line.starts_with(file + "(")) return;
    if (line.find("): error") == std::string_view::npos) return;
    const std::string_view digits = between(line, "(", ")");
    std::from_chars(digits.data(), digits.data() + digits.size(), first);
  });
  return first;
}

}  // namespace heddle::cuda
