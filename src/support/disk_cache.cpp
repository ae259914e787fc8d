#include "heddle/support/disk_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "heddle/support/error.h"
#include "heddle/support/file.h"
#include "heddle/support/hash.h"
#include "heddle/support/log.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// The number of stores between two sweeps. A sweep scans all files, which may be thousands.
constexpr unsigned kStoresPerSweep = 64;
// A sweep reduces the size to this share of the limit, so that the next one is not needed at once.
constexpr double kSweepTo = 0.75;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The first line of a file: "heddle-cache <key> <checksum>".
std::string head_of(const std::string& key, std::string_view content) {
  char sum[17];
  std::snprintf(sum, sizeof sum, "%016llx",
                static_cast<unsigned long long>(hash_bytes(content.data(), content.size())));
  return "heddle-cache " + key + " " + sum;
}

}  // namespace

std::string cache_folder(const std::string& kind) {
  const std::string chosen = variable("HEDDLE_CACHE");
  if (chosen == "off") return {};
  if (!chosen.empty()) return (fs::path(chosen) / kind).string();
  const std::string cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (cache.empty() && home.empty()) return {};
  return ((cache.empty() ? fs::path(home) / ".cache" : fs::path(cache)) / "heddle" / kind).string();
}

std::uintmax_t cache_limit(const char* name, std::uintmax_t megabytes) {
  const std::string text = variable(name);
  std::from_chars(text.data(), text.data() + text.size(), megabytes);
  return megabytes << 20;
}

fs::path DiskCache::file_of(const std::string& key) const {
  return fs::path(folder_) / (key + extension_);
}

DiskCache::Answer DiskCache::load(const std::string& key) const {
  if (folder_.empty()) return {};
  const fs::path file = file_of(key);
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  std::string all;
  try {
    all = read_file(file.string());
  } catch (const Error&) {
    return {};  // another process removed it just now, or it belongs to another user
  }
  const std::size_t line = all.find('\n');
  if (line != std::string::npos) {
    const std::string_view content = std::string_view(all).substr(line + 1);
    if (all.compare(0, line, head_of(key, content)) == 0) {
      fs::last_write_time(file, fs::file_time_type::clock::now(), error);
      return {std::string(content), false};
    }
  }
  HEDDLE_LOG_AT("cache", 1, file.string() + " is damaged; it is made again");
  fs::remove(file, error);
  return {std::nullopt, true};
}

void DiskCache::store(const std::string& key, const std::string& content) const {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  try {
    write_file_atomic(file_of(key).string(), head_of(key, content) + "\n" + content);
  } catch (const Error&) {
    return;
  }
  added();
}

void DiskCache::added() const {
  // The first store sweeps too, because many processes store one or two files each. A folder shares
  // its counter with few others, so each folder is swept.
  static std::array<std::atomic<unsigned>, 64> stores{};
  if (stores[hash_string(folder_) % stores.size()].fetch_add(1) % kStoresPerSweep == 0) sweep();
}

std::vector<DiskCache::Entry> DiskCache::entries() const {
  std::vector<Entry> files;
  if (folder_.empty()) return files;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != extension_) continue;
    std::error_code gone;  // removed by another process
    const std::uintmax_t bytes = it->file_size(gone);
    const fs::file_time_type used = it->last_write_time(gone);
    if (!gone) files.push_back({it->path(), used, bytes});
  }
  std::sort(files.begin(), files.end(), [](const Entry& a, const Entry& b) {
    return a.used != b.used ? a.used < b.used : a.path < b.path;
  });
  return files;
}

void DiskCache::sweep() const {
  const std::vector<Entry> files = entries();
  std::uintmax_t total = 0;
  for (const Entry& file : files) total += file.bytes;
  if (total <= limit_) return;
  const auto enough = static_cast<std::uintmax_t>(kSweepTo * static_cast<double>(limit_));
  std::error_code error;
  for (const Entry& file : files) {
    if (total <= enough) break;
    fs::remove(file.path, error);
    total -= file.bytes;
  }
}

int DiskCache::clear() const {
  const std::vector<Entry> files = entries();
  for (const Entry& file : files) {
    std::error_code error;
    fs::remove(file.path, error);
    if (error)
      throw_runtime_error("cannot remove '" + file.path.string() + "': " + error.message());
  }
  return static_cast<int>(files.size());
}

}  // namespace heddle
