#include "heddle/support/disk_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <system_error>

#include "heddle/support/error.h"
#include "support/environment.h"
#include "support/files/open_cache.h"
#include "support/hashing/hash.h"
#include "support/hashing/hex.h"
#include "support/log.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// The number of stores between two sweeps. A sweep scans all files, which may be thousands.
constexpr unsigned kStoresPerSweep = 64;
// A sweep reduces the size to this share of the limit, so that the next one is not needed at once.
constexpr double kSweepTo = 0.75;

// The first line of a file: "heddle-cache <key> <hash>".
std::string head_of(const std::string& key, const internal::Bits128& sum) {
  return "heddle-cache " + key + " " + to_hex(sum.low) + to_hex(sum.high);
}

internal::Bits128 sum_of(const internal::OpenCache& cache, const std::string& name,
                         std::string_view content) {
  internal::SipHash128 sum = cache.seal(name);
  sum.add(content.data(), content.size());
  return sum.value();
}

/// The folder that holds those of all kinds.
fs::path cache_root() {
  const std::string chosen = internal::environment_value("HEDDLE_CACHE");
  if (chosen == "off") return {};
  if (!chosen.empty()) return chosen;
  const std::string cache = internal::environment_value("XDG_CACHE_HOME"),
                    home = internal::environment_value("HOME");
  if (cache.empty() && home.empty()) return {};
  return (cache.empty() ? fs::path(home) / ".cache" : fs::path(cache)) / "heddle";
}

/// Says once in a process that a cache is not used.
void say_once(const std::string& refusal) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(refusal).second) std::fprintf(stderr, "heddle: %s\n", refusal.c_str());
}

}  // namespace

std::string cache_folder(const std::string& kind) {
  const fs::path root = cache_root();
  return root.empty() ? std::string() : (root / kind).string();
}

std::uintmax_t cache_limit(const char* name, std::uintmax_t megabytes) {
  const std::string text = internal::environment_value(name);
  std::from_chars(text.data(), text.data() + text.size(), megabytes);
  return megabytes << 20;
}

DiskCache::DiskCache(std::string folder, std::string extension, std::uintmax_t limit_bytes)
    : folder_(std::move(folder)),
      key_folder_(folder_),
      extension_(std::move(extension)),
      limit_(limit_bytes) {
  const fs::path root = cache_root();
  if (!root.empty() && folder_ == cache_folder(fs::path(folder_).filename().string()))
    key_folder_ = root.string();
}

std::shared_ptr<const internal::OpenCache> DiskCache::open(bool make) const {
  if (folder_.empty()) return nullptr;
  std::string refusal;
  auto cache = internal::open_cache({folder_, key_folder_}, make, refusal);
  if (!refusal.empty()) say_once(refusal);
  return cache;
}

std::string DiskCache::refusal() const {
  std::string refusal;
  if (!folder_.empty()) internal::open_cache({folder_, key_folder_}, false, refusal);
  return refusal;
}

DiskCache::Answer DiskCache::load(const std::string& key) const {
  const auto cache = open(/*make=*/false);
  if (!cache) return {};
  const std::string name = name_of(key);
  const std::optional<std::string> all = cache->folder().read(name);
  if (!all) return {};
  const std::size_t line = all->find('\n');
  if (line != std::string::npos) {
    const std::string_view content = std::string_view(*all).substr(line + 1);
    if (all->compare(0, line, head_of(key, sum_of(*cache, name, content))) == 0) {
      cache->folder().mark_as_used(name);
      return {std::string(content), false};
    }
  }
  HEDDLE_LOG_AT("cache", 1, folder_ + "/" + name + " is damaged; it is made again");
  cache->folder().remove(name);
  return {std::nullopt, true};
}

void DiskCache::store(const std::string& key, const std::string& content) const {
  const auto cache = open(/*make=*/true);
  if (!cache) return;
  const std::string name = name_of(key);
  // No flush is needed: after a power failure the hash shows whether the file is complete.
  const bool stored =
      cache->folder().write(name, internal::OpenCache::unfinished(key, extension_),
                            head_of(key, sum_of(*cache, name, content)) + "\n" + content);
  if (stored) added(*cache);
}

void DiskCache::added(const internal::OpenCache& cache) const {
  // The first store sweeps too, because many processes store one or two files each. A folder shares
  // its counter with few others, so each folder is swept.
  static std::array<std::atomic<unsigned>, 64> stores{};
  if (stores[hash_string(folder_) % stores.size()].fetch_add(1) % kStoresPerSweep == 0)
    sweep(cache);
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

void DiskCache::sweep(const internal::OpenCache& cache) const {
  const std::vector<Entry> files = entries();
  std::uintmax_t total = 0;
  for (const Entry& file : files) total += file.bytes;
  if (total <= limit_) return;
  const auto enough = static_cast<std::uintmax_t>(kSweepTo * static_cast<double>(limit_));
  for (const Entry& file : files) {
    if (total <= enough) break;
    cache.folder().remove(file.path.filename().string());
    total -= file.bytes;
  }
}

int DiskCache::clear() const {
  const internal::PrivateFolder folder(folder_, /*make=*/false);
  if (!folder.refusal().empty()) {
    throw_runtime_error("the files of '" + folder_ + "' are not removed: " + folder.refusal(), {},
                        "make it yours alone (chmod 700)");
  }
  if (!folder) return 0;
  const std::vector<Entry> files = entries();
  for (const Entry& file : files) {
    const int error = folder.remove(file.path.filename().string());
    if (error != 0 && error != ENOENT)
      throw_runtime_error("cannot remove '" + file.path.string() + "': " + std::strerror(error));
  }
  return static_cast<int>(files.size());
}

}  // namespace heddle
