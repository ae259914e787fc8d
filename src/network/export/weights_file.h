// Writes the weights of an exported network, one array after the other.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "support/hashing/checksum.h"

namespace heddle::network {

class WeightsFile {
 public:
  explicit WeightsFile(std::string path);
  /// Returns the place of the array: bytes from the start of the weights.
  int64_t add(const void* data, int64_t bytes);
  /// Completes the file.
  void finish();

  int64_t bytes() const { return bytes_; }
  uint64_t hash() const { return sum_.value(); }

 private:
  void write(const void* data, int64_t bytes);
  void check() const;

  std::string path_;
  std::ofstream file_;
  int64_t bytes_ = 0;
  internal::Checksum sum_;  ///< of all bytes after the header's page
};

}  // namespace heddle::network
