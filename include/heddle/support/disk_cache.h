// Files that save work which another process did before: compiled kernels, found by a hash of
// everything that they depend on.
//
// The folders are below HEDDLE_CACHE ("off": no cache), or else below heddle in $XDG_CACHE_HOME or
// ~/.cache. Any number of threads and processes may share a folder: a file appears complete, by a
// rename.
//
// Code from a cache is executed, so only what this user stored is found. Folders are made for the
// user alone. One that belongs to another user, or that others can write to, is not used, and a
// line on stderr says so once. Each file holds a keyed hash (SipHash-128) of its name and contents.
// The key is random and lies in the file "key" beside the folders, readable by the user alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

namespace internal {
class OpenCache;
}

/// The folder of one kind of files, such as "code". Empty: there is no cache.
std::string cache_folder(const std::string& kind);

/// A folder of files that several processes may read and write at once.
class DiskCache {
 public:
  /// A cache in `folder`, which is created at the first store. With an empty folder nothing is
  /// stored and nothing is found. Names end in `extension`, such as ".o"; other files are left
  /// alone. Above `limit_bytes` the least recently used files are removed. The key lies in the
  /// folder, or above it for the folders of cache_folder().
  DiskCache(std::string folder, std::string extension, std::uintmax_t limit_bytes);

  struct Answer {
    std::optional<std::string> content;
    bool damaged = false;  ///< there was a file, and it was not what this user stored
  };
  /// Looks for a key and marks its file as recently used. A damaged file is removed.
  Answer load(const std::string& key) const;
  /// Stores `content`. A full disk or a folder that cannot be written is not an error, because it
  /// only costs speed.
  void store(const std::string& key, const std::string& content) const;

  /// For contents that do not pass through memory (support/files/open_cache.h): the open folder, or null
  /// where there is none that can be trusted; the name of the file of a key in it; and the function
  /// to call when such a file was written. `make`: whether to make the folder where it is missing.
  std::shared_ptr<const internal::OpenCache> open(bool make) const;
  std::string name_of(const std::string& key) const { return key + extension_; }
  void added(const internal::OpenCache& cache) const;

  struct Entry {
    std::filesystem::path path;
    std::filesystem::file_time_type used;
    std::uintmax_t bytes = 0;
  };
  const std::string& folder() const { return folder_; }
  const std::string& extension() const { return extension_; }
  /// Why the folder is not used, although it is there. Empty where it is used.
  std::string refusal() const;
  std::uintmax_t limit_bytes() const { return limit_; }
  std::vector<Entry> entries() const;  ///< least recently used first
  /// Removes all files and returns their number. Throws a Runtime error where a file cannot be
  /// removed, or the folder is not this user's alone.
  int clear() const;

 private:
  void sweep(const internal::OpenCache& cache) const;

  std::string folder_, key_folder_, extension_;
  std::uintmax_t limit_;
};

/// The limit of a cache in bytes: a number of MiB from an environment variable, else `megabytes`.
std::uintmax_t cache_limit(const char* variable, std::uintmax_t megabytes);

}  // namespace heddle
