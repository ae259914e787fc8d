#include "codegen/cuda/cubin_cache.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "codegen/cuda/ptxas_log.h"
#include "heddle/support/error.h"
#include "heddle/support/file.h"
#include "heddle/support/hash.h"
#include "heddle/support/json.h"

namespace heddle::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExtension = ".cubin";
// Scanning all files, which may be thousands, is done once in this number of stores.
constexpr unsigned kStoresPerSweep = 64;
// A sweep goes somewhat below the limit, so that it is not needed again at once.
constexpr double kSweepTo = 0.75;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string checksum(const std::string& bytes) {
  return hex(hash_bytes(bytes.data(), bytes.size()));
}

fs::path file_of(const std::string& folder, const std::string& key) {
  return fs::path(folder) / (key + kExtension);
}

std::uintmax_t limit_bytes() {
  const std::string text = variable("HEDDLE_CUBIN_CACHE_MB");
  std::uintmax_t megabytes = 512;
  std::from_chars(text.data(), text.data() + text.size(), megabytes);
  return megabytes << 20;
}

// Deletes the least recently used files.
void sweep(const std::string& folder) {
  struct File {
    fs::path path;
    fs::file_time_type used;
    std::uintmax_t bytes = 0;
  };
  std::vector<File> files;
  std::uintmax_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != kExtension) continue;
    std::error_code gone;  // deleted by another process
    const std::uintmax_t bytes = it->file_size(gone);
    const fs::file_time_type used = it->last_write_time(gone);
    if (gone) continue;
    files.push_back({it->path(), used, bytes});
    total += bytes;
  }
  const std::uintmax_t limit = limit_bytes();
  if (total <= limit) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return a.used != b.used ? a.used < b.used : a.path < b.path;
  });
  const auto enough = static_cast<std::uintmax_t>(kSweepTo * static_cast<double>(limit));
  for (const File& file : files) {
    if (total <= enough) break;
    fs::remove(file.path, error);
    total -= file.bytes;
  }
}

}  // namespace

std::string cubin_key(const std::string& source, const std::string& arch,
                      const std::vector<std::string>& options, int nvrtc_version) {
  // Lengths keep ("ab", "c") and ("a", "bc") apart.
  std::string all = "heddle " + std::to_string(kCodegenVersion) + " nvrtc " +
                    std::to_string(nvrtc_version) + " " + arch;
  for (const std::string& option : options) {
    all += " " + std::to_string(option.size()) + ":" + option;
  }
  all += "\n" + source;
  return hex(hash_bytes(all.data(), all.size(), 1)) + hex(hash_bytes(all.data(), all.size(), 2));
}

std::string cubin_cache_folder() {
  const std::string chosen = variable("HEDDLE_CUBIN_CACHE");
  if (chosen == "off") return {};
  if (!chosen.empty()) return chosen;
  const std::string cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (cache.empty() && home.empty()) return {};
  return ((cache.empty() ? fs::path(home) / ".cache" : fs::path(cache)) / "heddle" / "cubin")
      .string();
}

// One line of JSON, then the machine code.
std::optional<Cubin> load_cubin(const std::string& key) {
  const std::string folder = cubin_cache_folder();
  if (folder.empty()) return std::nullopt;
  const fs::path file = file_of(folder, key);
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  try {
    const std::string content = read_file(file.string());
    const std::size_t line = content.find('\n');
    if (line == std::string::npos) return std::nullopt;
    const Json head = Json::parse(std::string_view(content).substr(0, line));
    Cubin cubin;
    cubin.bytes = content.substr(line + 1);
    if (head.at("key").as_string() != key) return std::nullopt;
    cubin.arch = head.at("arch").as_string();
    cubin.log = head.at("log").as_string();
    if (head.at("checksum").as_string() != checksum(cubin.bytes + cubin.log)) return std::nullopt;
    cubin.compile_s = head.at("compile_s").as_double();
    cubin.kernels = parse_resources(cubin.log);
    cubin.warnings = parse_warnings(cubin.log);
    cubin.cached = true;
    fs::last_write_time(file, fs::file_time_type::clock::now(),
                        error);  // marks the file as recently used
    return cubin;
  } catch (const Error&) {  // not JSON, a missing field, or a file that was just deleted
    return std::nullopt;
  }
}

void store_cubin(const std::string& key, const Cubin& cubin) {
  const std::string folder = cubin_cache_folder();
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  const Json head = Json::object({{"key", key},
                                  {"arch", cubin.arch},
                                  {"checksum", checksum(cubin.bytes + cubin.log)},
                                  {"compile_s", cubin.compile_s},
                                  {"log", cubin.log}});
  try {
    write_file_atomic(file_of(folder, key).string(), head.dump() + "\n" + cubin.bytes);
  } catch (const Error&) {
    return;
  }
  // At the first store too, because many processes store one or two files each.
  static std::atomic<unsigned> stores{0};
  if (stores.fetch_add(1) % kStoresPerSweep == 0) sweep(folder);
}

}  // namespace heddle::cuda
