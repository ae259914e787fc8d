// The weights file of an exported network in memory: mapped, so that its pages are shared among
// processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/exported/network.h"

namespace heddle {

/// The path that a call named, or without one the file beside the library that contains `tables`.
std::string weights_path(const void* tables, const char* name, const char* named);

class ExportedWeights {
 public:
  /// The properties of the file that the library expects.
  struct Expected {
    int64_t bytes = 0;
    uint64_t hash = 0;
    bool check = true;  ///< whether the weights are read and compared with the hash
  };
  /// Throws a Runtime error where the file cannot be read, is not the one that was written with the
  /// library `name`, or is damaged.
  ExportedWeights(std::string path, const char* name, const Expected& expected);
  ~ExportedWeights();
  ExportedWeights(const ExportedWeights&) = delete;
  ExportedWeights& operator=(const ExportedWeights&) = delete;

  /// `offset` is in bytes from the start of the weights.
  char* at(int64_t offset) const { return static_cast<char*>(data_) + kExportedPage + offset; }

  /// Throws a Runtime error where the file has become shorter. Reading the missing part would end
  /// the process (SIGBUS). A file that is cut while a call runs is not found out.
  void check_length() const;

 private:
  void check_header(const char* name, const Expected& expected) const;
  void check_contents(uint64_t hash) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  int file_ = -1;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace heddle
