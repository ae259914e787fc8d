#include "runtime/kernel/prepared_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "heddle/runtime/thread_pool.h"
#include "runtime/array/deferred.h"
#include "support/files/open_cache.h"
#include "support/hashing/hash.h"
#include "support/hashing/hex.h"
#include "support/log.h"

namespace heddle {
namespace {

struct Header {
  char magic[8] = {'H', 'E', 'D', 'D', 'L', 'E', 'P', '2'};
  char key[32] = {};
  int64_t bytes = 0;  ///< bytes of all arrays, which follow the header one after the other
  internal::Bits128 seal;
};

// The bytes that are read or written and hashed at a time. A part stays in a cache in between.
constexpr size_t kPart = size_t{1} << 19;

struct Part {
  char* data;
  size_t size;
  off_t at;  ///< in the file
};

std::vector<Part> parts_of(std::span<const NDArray> arrays) {
  std::vector<Part> parts;
  auto at = static_cast<off_t>(sizeof(Header));
  for (const NDArray& array : arrays) {
    auto* data = static_cast<char*>(array.data());
    const auto size = static_cast<size_t>(array.bytes());
    for (size_t begin = 0; begin < size; begin += kPart) {
      parts.push_back({data + begin, std::min(kPart, size - begin), at});
      at += static_cast<off_t>(parts.back().size);
    }
  }
  return parts;
}

/// Calls `move(part)` for all parts on all threads, and returns the hash of the header and of the
/// hashes of the parts under the key of the cache. Nothing where `move` fails.
template <class Move>
std::optional<internal::Bits128> sealed(const internal::OpenCache& cache, const Header& header,
                                        std::span<const Part> parts, const Move& move) {
  std::vector<internal::Bits128> sums(parts.size());
  std::atomic<bool> failed{false};
  parallel_for(std::ssize(parts), [&](int64_t begin, int64_t end) {
    for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end) && !failed; ++p) {
      internal::SipHash128 sum(cache.key());
      if (!move(parts[p])) failed = true;
      sum.add(parts[p].data, parts[p].size);
      sums[p] = sum.value();
    }
  });
  if (failed) return std::nullopt;
  internal::SipHash128 all = cache.seal(std::string(header.key, sizeof header.key));
  all.add(&header, offsetof(Header, seal));
  all.add(sums.data(), sums.size() * sizeof sums[0]);
  return all.value();
}

/// Calls `call(data, size, at)`, which does a part of the work, until all of it is done.
template <class Call>
bool transfer(const Call& call, char* data, size_t size, off_t at) {
  while (size > 0) {
    const ssize_t n = call(data, size, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
    at += n;
  }
  return true;
}

bool read_all(int file, void* data, size_t size, off_t at) {
  return transfer([&](char* to, size_t n, off_t from) { return ::pread(file, to, n, from); },
                  static_cast<char*>(data), size, at);
}

bool write_all(int file, const void* data, size_t size, off_t at) {
  return transfer([&](char* from, size_t n, off_t to) { return ::pwrite(file, from, n, to); },
                  static_cast<char*>(const_cast<void*>(data)), size, at);
}

/// Identifies an array by the file that holds it, or else by a hash of its contents.
std::string identity(const NDArray& array) {
  std::string known = internal::identity_of(array);
  if (!known.empty()) return known;
  const internal::Pinned in_memory({&array, 1});
  const auto size = static_cast<size_t>(array.bytes());
  return std::to_string(size) + ":" + std::to_string(hash_bytes(array.address(), size));
}

Header header_of(const std::string& key, std::span<const NDArray> arrays) {
  Header header;
  std::memcpy(header.key, key.data(), std::min(key.size(), sizeof header.key));
  for (const NDArray& array : arrays) header.bytes += array.bytes();
  return header;
}

bool read_arrays(int file, const Header& wanted, const internal::OpenCache& cache,
                 std::span<const NDArray> arrays) {
  struct stat status{};
  Header found;
  if (::fstat(file, &status) != 0 || !read_all(file, &found, sizeof found, 0)) return false;
  if (status.st_size != static_cast<off_t>(sizeof found) + wanted.bytes) return false;
  if (std::memcmp(&found, &wanted, offsetof(Header, seal)) != 0) return false;
  return sealed(cache, wanted, parts_of(arrays),
                [&](const Part& p) { return read_all(file, p.data, p.size, p.at); }) == found.seal;
}

bool write_arrays(int file, Header header, const internal::OpenCache& cache,
                  std::span<const NDArray> arrays) {
  const auto seal = sealed(cache, header, parts_of(arrays),
                           [&](const Part& p) { return write_all(file, p.data, p.size, p.at); });
  if (!seal) return false;
  header.seal = *seal;
  return write_all(file, &header, sizeof header, 0);
}

}  // namespace

DiskCache disk_weights_cache() {
  return {cache_folder("weights"), ".packed", cache_limit("HEDDLE_WEIGHTS_CACHE_MB", 4096)};
}

std::string prepared_key(const std::string& code_key, std::span<const NDArray> constants,
                         std::span<const NDArray> bound) {
  if (code_key.empty()) return {};
  std::string text = code_key;
  for (const auto& list : {constants, bound}) {
    for (const NDArray& array : list) text += "\n" + identity(array);
  }
  return key_of_text(text);
}

bool load_prepared(const std::string& key, std::span<const NDArray> arrays) {
  if (key.empty()) return false;
  const DiskCache disk = disk_weights_cache();
  const auto cache = disk.open(/*make=*/false);
  if (!cache) return false;
  const std::string name = disk.name_of(key);
  const internal::File file = cache->folder().open(name);
  if (!file && errno == ENOENT) return false;
  if (file && read_arrays(file.get(), header_of(key, arrays), *cache, arrays)) {
    cache->folder().mark_as_used(name);
    return true;
  }
  HEDDLE_LOG_AT("cache", 1, disk.folder() + "/" + name + " is damaged; it is made again");
  cache->folder().remove(name);
  return false;
}

void store_prepared(const std::string& key, std::span<const NDArray> arrays) {
  if (key.empty()) return;
  const DiskCache disk = disk_weights_cache();
  const Header header = header_of(key, arrays);
  if (static_cast<std::uintmax_t>(header.bytes) > disk.limit_bytes() / 2) return;
  const auto cache = disk.open(/*make=*/true);
  if (!cache) return;
  const std::string unfinished = internal::OpenCache::unfinished(key, disk.extension());
  {
    const internal::File file = cache->folder().create(unfinished);
    if (!file) return;
    if (!write_arrays(file.get(), header, *cache, arrays)) {
      cache->folder().remove(unfinished);
      return;
    }
  }
  // No flush is needed: after a power failure the hash shows whether the file is complete.
  if (cache->folder().rename(unfinished, disk.name_of(key))) disk.added(*cache);
}

}  // namespace heddle
