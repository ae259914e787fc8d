#include "runtime/prepared_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "heddle/support/hash.h"
#include "heddle/support/log.h"
#include "runtime/deferred.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[8] = {'H', 'E', 'D', 'D', 'L', 'E', 'P', '1'};
  char key[32] = {};
  int64_t bytes = 0;  ///< bytes of all arrays, which follow the header one after the other
  uint64_t checksum = 0;
};

/// A checksum of large contents that is about as fast as memory. It keeps four independent chains,
/// so that the multiplications overlap.
class Checksum {
 public:
  void add(const char* data, size_t size) {
    size_t at = 0;
    for (; at + sizeof lanes_ <= size; at += sizeof lanes_) {
      uint64_t words[4];
      std::memcpy(words, data + at, sizeof words);
      for (size_t l = 0; l < 4; ++l)
        lanes_[l] = (std::rotl(lanes_[l], 29) ^ words[l]) * 0x9e3779b97f4a7c15ULL;
    }
    lanes_[0] = hash_bytes(data + at, size - at, lanes_[0]);
  }
  uint64_t value() const {
    uint64_t h = 0;
    for (const uint64_t lane : lanes_) h = hash_combine(h, lane);
    return h;
  }

 private:
  uint64_t lanes_[4] = {1, 2, 3, 4};
};

// The bytes that are read or written and checked at a time. A part stays in a cache in between.
constexpr size_t kPart = size_t{1} << 19;

/// Calls `part(address, bytes)` for the contents of the arrays in order. Stops and returns false
/// when `part` returns false.
template <class Part>
bool for_each_part(std::span<const NDArray> arrays, const Part& part) {
  for (const NDArray& array : arrays) {
    auto* data = static_cast<char*>(array.data());
    const auto size = static_cast<size_t>(array.bytes());
    for (size_t at = 0; at < size; at += kPart) {
      if (!part(data + at, std::min(kPart, size - at))) return false;
    }
  }
  return true;
}

template <class Call>
bool transfer(const Call& call, char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = call(data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool read_all(int file, void* data, size_t size) {
  return transfer([&](char* to, size_t n) { return ::read(file, to, n); }, static_cast<char*>(data),
                  size);
}

bool write_all(int file, const void* data, size_t size) {
  return transfer([&](char* from, size_t n) { return ::write(file, from, n); },
                  static_cast<char*>(const_cast<void*>(data)), size);
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

bool read_arrays(int file, const Header& wanted, std::span<const NDArray> arrays) {
  Header found;
  if (!read_all(file, &found, sizeof found)) return false;
  if (std::memcmp(&found, &wanted, offsetof(Header, checksum)) != 0) return false;
  Checksum sum;
  const bool all = for_each_part(arrays, [&](char* data, size_t size) {
    if (!read_all(file, data, size)) return false;
    sum.add(data, size);
    return true;
  });
  char more = 0;
  return all && sum.value() == found.checksum && ::read(file, &more, 1) == 0;
}

bool write_arrays(int file, Header header, std::span<const NDArray> arrays) {
  Checksum sum;
  const bool all = write_all(file, &header, sizeof header) &&
                   for_each_part(arrays, [&](const char* data, size_t size) {
                     sum.add(data, size);
                     return write_all(file, data, size);
                   });
  header.checksum = sum.value();
  return all && ::lseek(file, 0, SEEK_SET) == 0 && write_all(file, &header, sizeof header);
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
  char key[33];
  std::snprintf(key, sizeof key, "%016llx%016llx",
                static_cast<unsigned long long>(hash_bytes(text.data(), text.size(), 1)),
                static_cast<unsigned long long>(hash_bytes(text.data(), text.size(), 2)));
  return key;
}

bool load_prepared(const std::string& key, std::span<const NDArray> arrays) {
  const DiskCache cache = disk_weights_cache();
  if (key.empty() || cache.folder().empty()) return false;
  const std::string path = cache.file_of(key).string();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool whole = read_arrays(file, header_of(key, arrays), arrays);
  ::close(file);
  std::error_code error;
  if (whole) {
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  } else {
    HEDDLE_LOG_AT("cache", 1, path + " is damaged; it is made again");
    fs::remove(path, error);
  }
  return whole;
}

void store_prepared(const std::string& key, std::span<const NDArray> arrays) {
  const DiskCache cache = disk_weights_cache();
  if (key.empty() || cache.folder().empty()) return;
  const Header header = header_of(key, arrays);
  if (static_cast<std::uintmax_t>(header.bytes) > cache.limit_bytes() / 2) return;
  std::error_code error;
  fs::create_directories(cache.folder(), error);
  static std::atomic<unsigned> count{0};
  // The name has the suffix of the cache, so that a sweep removes what a killed process left.
  const std::string unfinished =
      cache.file_of(key + "-" + std::to_string(::getpid()) + "-" + std::to_string(count++))
          .string();
  const int file = ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  const bool written = write_arrays(file, header, arrays);
  // No fsync is needed: after a power failure the checksum shows whether the file is complete.
  if (::close(file) == 0 && written) {
    fs::rename(unfinished, cache.file_of(key), error);
    if (!error) cache.added();
  }
  fs::remove(unfinished, error);
}

}  // namespace heddle
