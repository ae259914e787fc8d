// PickStore: the picks of multi-kernels on disk, for later processes.
//
// A pick is a file `<key>.json` in the store's folder, which is replaced as a whole: a process may
// be killed at any moment, and readers see the old pick, the new one or none. While a process
// measures it holds the lock of the key, a byte of the file `lock`. The system releases it when the
// process ends in any way. Others wait and then find the pick, so nothing is measured twice.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/runtime/pick_row.h"

namespace heddle {

/// The lock of a key, held until destroyed.
class PickLock {
 public:
  explicit PickLock(int fd) : fd_(fd) {}
  ~PickLock();
  PickLock(PickLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  PickLock& operator=(PickLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  PickLock(const PickLock&) = delete;
  PickLock& operator=(const PickLock&) = delete;

 private:
  int fd_;
};

/// Picks on the disk, one file each, which several processes may use at once.
class PickStore {
 public:
  /// A store in `folder`, which is created at the first write.
  explicit PickStore(std::string folder);

  /// The folder that HEDDLE_PICKS names, else `picks` beside the caches of code
  /// (support/disk_cache.h). Empty where HEDDLE_PICKS is "off" or there are no caches.
  static std::string standard_folder();
  /// The store of that folder; null where there is none.
  static std::shared_ptr<const PickStore> standard();

  /// The pick of a key. An unreadable file counts as none; `problem`, where given, gets the reason.
  std::optional<PickRow> find(const std::string& key, std::string* problem = nullptr) const;
  /// Stores a pick, which is on the disk when this returns. The row must have a key. Throws a
  /// Runtime error where the disk is full or the folder cannot be written.
  void remember(const PickRow& row) const;
  /// Removes the pick of a key. Returns whether there was one.
  bool forget(const std::string& key) const;
  /// Removes files that are no picks, such as torn ones. Picks of a newer Heddle, and files that
  /// cannot be read, stay. Returns their number.
  int forget_damaged() const;
  /// All picks, the latest first. `problems`, where given, gets a line for each damaged file.
  std::vector<PickRow> all(std::vector<std::string>* problems = nullptr) const;

  /// Waits for the lock of a key for at most `seconds`; empty when that was not enough. Throws a
  /// Runtime error where the lock file cannot be made. Locks exclude threads as well as processes.
  std::optional<PickLock> lock(const std::string& key, double seconds) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string path_of(const std::string& key) const;
  void remove_left_overs(const std::string& key) const;

  std::string folder_;
};

}  // namespace heddle
