#include "support/files/open_cache.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

namespace heddle::internal {
namespace {

constexpr const char* kKeyFile = "key";

std::optional<std::string> random_key() {
  std::string bytes(sizeof(Bits128), '\0');
  ssize_t n = 0;
  do {
    n = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(bytes.size())) return std::nullopt;
  return bytes;
}

/// Makes a key, unless another process makes one at the same time: then that one counts.
void make_key(const PrivateFolder& folder) {
  const std::optional<std::string> bytes = random_key();
  if (!bytes) return;
  const std::string complete = OpenCache::unfinished(kKeyFile, ""),
                    unfinished = OpenCache::unfinished(kKeyFile, "");
  if (!folder.write(complete, unfinished, *bytes)) return;
  // Some file systems have no links. There the key of the last process counts, and files that were
  // sealed under an earlier one are made again.
  if (!folder.link(complete, kKeyFile) && errno != EEXIST) folder.rename(complete, kKeyFile);
  folder.remove(complete);
}

/// The key of the folder. Nothing where there is none, or it is refused.
std::optional<Bits128> read_key(const PrivateFolder& folder, std::string& refusal) {
  const File file = folder.open(kKeyFile);
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat status{};
  unsigned char bytes[sizeof(Bits128)];
  const bool whole = file && ::fstat(file.get(), &status) == 0 && status.st_size == sizeof bytes &&
                     ::pread(file.get(), bytes, sizeof bytes, 0) == sizeof bytes;
  if (!whole) {
    refusal = "its file 'key' is no key";
  } else if (status.st_uid != ::geteuid()) {
    refusal = "its file 'key' belongs to another user";
  } else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refusal = "other users have access to its file 'key'";
  }
  if (!refusal.empty()) return std::nullopt;
  Bits128 key;
  std::memcpy(&key, bytes, sizeof key);
  return key;
}

/// Appends what a user can do.
void explain(std::string& refusal, const std::string& folder, bool about_key) {
  if (refusal.empty()) return;
  refusal = "'" + folder + "' is not used as a cache: " + refusal + "; ";
  refusal += about_key ? "remove that file, and a new one is made"
                       : "make it yours alone (chmod 700), or name another folder in HEDDLE_CACHE "
                         "(off: no cache)";
}

}  // namespace

SipHash128 OpenCache::seal(const std::string& name) const {
  SipHash128 hash(key_);
  hash.add(name.c_str(), name.size() + 1);  // its end keeps it apart from the contents
  return hash;
}

std::string OpenCache::unfinished(const std::string& key, const std::string& extension) {
  static std::atomic<unsigned> count{0};
  return key + "-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + extension;
}

std::shared_ptr<const OpenCache> open_cache(const SealedPlace& place, bool make,
                                            std::string& refusal) {
  // The folder of the key comes first, because it may be the parent of the other one.
  const PrivateFolder outer(place.key_folder, make);
  if (!outer) {
    refusal = outer.refusal();
    explain(refusal, place.key_folder, false);
    return nullptr;
  }
  PrivateFolder folder(place.folder, make);
  if (!folder) {
    refusal = folder.refusal();
    explain(refusal, place.folder, false);
    return nullptr;
  }
  std::optional<Bits128> key = read_key(outer, refusal);
  if (!key && refusal.empty() && make) {
    make_key(outer);
    key = read_key(outer, refusal);
  }
  explain(refusal, place.key_folder, true);
  if (!key) return nullptr;
  return std::make_shared<const OpenCache>(std::move(folder), *key);
}

}  // namespace heddle::internal
