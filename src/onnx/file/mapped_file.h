// A file mapped into memory. Pages are read on first access, and arrays of its parts keep it
// mapped.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "heddle/runtime/ndarray.h"

namespace heddle::onnx {

class MappedFile {
 public:
  /// Throws a Runtime error that names the file and the reason where it cannot be read.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  /// The same for `bytes` in memory, which are moved.
  static std::shared_ptr<const MappedFile> of_bytes(std::string bytes);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

  /// The identity of the file's contents: device, number, size and times of change. Empty for bytes
  /// in memory, and for a file that was written a moment ago.
  const std::string& identity() const { return identity_; }
  /// Removes the pages within `part` from this process's memory. They are read again when they are
  /// needed.
  void drop(std::string_view part) const;

 private:
  MappedFile() = default;
  void* data_ = nullptr;
  size_t size_ = 0;
  std::string owned_, identity_;
};

/// An array whose elements are `bytes`, a part of `file`: in place where they are aligned to their
/// type, else copied when they are first needed. No element is read earlier. Writing to the array
/// changes this process's pages, never the file.
NDArray array_in_file(const std::shared_ptr<const MappedFile>& file, std::string_view bytes,
                      const Extents& shape, DataType dtype);

}  // namespace heddle::onnx
