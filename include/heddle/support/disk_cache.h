// Files that save work which another process did before: compiled kernels, found by a hash of
// everything that they depend on.
//
// The folders are below HEDDLE_CACHE ("off": no cache), or else below heddle in $XDG_CACHE_HOME or
// ~/.cache. Any number of threads and processes may share a folder: a file appears complete, by a
// rename, and holds a checksum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// The folder of one kind of files, such as "code". Empty: there is no cache.
std::string cache_folder(const std::string& kind);

/// A folder of files that several processes may read and write at once. Files have checksums.
class DiskCache {
 public:
  /// A cache in `folder`, which is created at the first store. With an empty folder nothing is
  /// stored and nothing is found. Names end in `extension`, such as ".o"; other files are left
  /// alone. Above `limit_bytes` the least recently used files are removed.
  DiskCache(std::string folder, std::string extension, std::uintmax_t limit_bytes)
      : folder_(std::move(folder)), extension_(std::move(extension)), limit_(limit_bytes) {}

  struct Answer {
    std::optional<std::string> content;
    bool damaged = false;  ///< there was a file, and its contents were damaged
  };
  /// Looks for a key and marks its file as recently used. A damaged file is removed.
  Answer load(const std::string& key) const;
  /// Stores `content`. A full disk or a folder that cannot be written is not an error, because it
  /// only costs speed.
  void store(const std::string& key, const std::string& content) const;

  /// For contents that do not pass through memory: the path of the file of a key, and the function
  /// to call when such a file was written.
  std::filesystem::path file_of(const std::string& key) const;
  void added() const;

  struct Entry {
    std::filesystem::path path;
    std::filesystem::file_time_type used;
    std::uintmax_t bytes = 0;
  };
  const std::string& folder() const { return folder_; }
  std::uintmax_t limit_bytes() const { return limit_; }
  std::vector<Entry> entries() const;  ///< least recently used first
  /// Removes all files and returns their number. Throws a Runtime error where a file cannot be
  /// removed.
  int clear() const;

 private:
  void sweep() const;

  std::string folder_, extension_;
  std::uintmax_t limit_;
};

/// The limit of a cache in bytes: a number of MiB from an environment variable, else `megabytes`.
std::uintmax_t cache_limit(const char* variable, std::uintmax_t megabytes);

}  // namespace heddle
