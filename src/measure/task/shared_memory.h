// Memory that the tuner and its workers share: inputs and reference results of tasks, made once.
//
// It is one file in memory. Workers inherit its descriptor and map the places that messages name.
// The file grows, and a region that is given back leaves a hole without pages. Places are never
// used twice, so that a place that is still mapped keeps its contents.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "heddle/support/json.h"

namespace heddle::measuring {

/// A part of the file, or of no file, mapped into this process until destroyed.
class SharedRegion {
 public:
  enum class Access : uint8_t {
    Shared,   ///< all processes see what is written
    Private,  ///< only this process and its children see what is written
  };
  SharedRegion() = default;
  /// Memory of this process and its children, full of zeros.
  static SharedRegion anonymous(int64_t bytes);
  /// `place` (of SharedMemory::place) of the file behind `fd`. Throws a User error for a place that
  /// is not one of `bytes` in that file.
  static SharedRegion map(int fd, const Json& place, int64_t bytes, Access access);
  ~SharedRegion();
  SharedRegion(SharedRegion&& other) noexcept { swap(other); }
  SharedRegion& operator=(SharedRegion&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// Its place, [offset, bytes], for SharedRegion::map in another process.
  Json place() const;

 private:
  friend class SharedMemory;
  void swap(SharedRegion& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(offset_, other.offset_);
    std::swap(owner_, other.owner_);
  }
  static SharedRegion map_at(int fd, int64_t offset, int64_t bytes, Access access);

  char* data_ = nullptr;
  int64_t bytes_ = 0, offset_ = 0;
  std::shared_ptr<int> owner_;  ///< the file, where this object gives the pages back
};

/// The file. Regions may outlive this object.
class SharedMemory {
 public:
  /// Throws a Runtime error where the system does not provide such files.
  SharedMemory();
  int fd() const { return *file_; }
  /// A new region of zeros. Its pages are freed when the region is destroyed in this process.
  SharedRegion allocate(int64_t bytes);

 private:
  std::shared_ptr<int> file_;
  int64_t end_ = 0;
};

}  // namespace heddle::measuring
