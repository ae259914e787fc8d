// The weights file of an exported network in memory: mapped, so that its pages are read when they
// are used, and shared among processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/exported_network.h"

namespace heddle {

class ExportedWeights {
 public:
  /// The properties of the file that the library expects.
  struct Expected {
    int64_t bytes = 0;
    uint64_t hash = 0;
  };
  /// Throws a Runtime error where the file cannot be read, or is not the one that was written with
  /// the library `name`.
  ExportedWeights(const std::string& path, const char* name, const Expected& expected);
  ~ExportedWeights();
  ExportedWeights(const ExportedWeights&) = delete;
  ExportedWeights& operator=(const ExportedWeights&) = delete;

  /// `offset` is in bytes from the start of the weights.
  char* at(int64_t offset) const { return static_cast<char*>(data_) + kExportedPage + offset; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace heddle
