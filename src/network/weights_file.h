// Writes the weights of an exported network, one array after the other.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace heddle::network {

class WeightsFile {
 public:
  explicit WeightsFile(std::string path);
  /// Returns the place of the array: bytes from the start of the weights.
  int64_t add(const void* data, int64_t bytes);
  /// Completes the file.
  void finish();

  int64_t bytes() const { return bytes_; }
  uint64_t hash() const { return hash_; }

 private:
  void check() const;

  std::string path_;
  std::ofstream file_;
  int64_t bytes_ = 0;
  uint64_t hash_ = 0;
};

}  // namespace heddle::network
