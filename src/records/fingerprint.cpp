// Identifies the machine and the build of Heddle that made a measurement.
#include <fstream>
#include <string>

#include "heddle/records/record.h"

namespace heddle {
namespace {

/// The name of the CPU from the operating system. A virtual machine may report any name.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (begin == std::string::npos) break;
    std::string name;
    for (char c : line.substr(begin)) {  // some names are padded with blanks
      if (c != ' ' || (!name.empty() && name.back() != ' ')) name += c;
    }
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) return name;
  }
  return Target::host().mcpu;
}

std::string size_text(int64_t bytes) {
  return bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + "M"
                                : std::to_string(bytes >> 10) + "K";
}

}  // namespace

const std::string& internal::machine_fingerprint() {
  static const std::string text = [] {
    const Target& host = Target::host();
    std::string out = cpu_name() + " (" + std::to_string(host.cores) +
                      (host.cores == 1 ? " core" : " cores") + ", L2 " + size_text(host.l2_bytes);
    if (host.l3_bytes > 0) out += ", L3 " + size_text(host.l3_bytes);
    return out + ")";
  }();
  return text;
}

const std::string& internal::build_fingerprint() {
  static const std::string text =
      std::string(HEDDLE_VERSION) + (*HEDDLE_COMMIT != '\0' ? "+" HEDDLE_COMMIT : "");
  return text;
}

}  // namespace heddle
