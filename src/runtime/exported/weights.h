// The weights file of an exported network in memory: mapped, so that its pages are shared among
// processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/exported/network.h"

namespace heddle {

/// The path that a call named, or without one the file beside the library that contains `address`.
std::string weights_path(const void* address, const char* name, const char* named);

class ExportedWeights {
 public:
  /// Throws a Runtime error where the file cannot be read, is not the one that was written with the
  /// library of `program`, or is damaged, which is looked at where the program says so.
  ExportedWeights(std::string path, const ExportedProgram& program);
  ~ExportedWeights();
  ExportedWeights(const ExportedWeights&) = delete;
  ExportedWeights& operator=(const ExportedWeights&) = delete;

  /// `offset` is in bytes from the start of the weights.
  char* at(int64_t offset) const { return static_cast<char*>(data_) + kExportedPage + offset; }

  /// Throws a Runtime error where the file has become shorter. Reading the missing part would end
  /// the process (SIGBUS). A file that is cut while a call runs is not found out.
  void check_length() const;

 private:
  void check_header(const ExportedProgram& program) const;
  void check_contents(uint64_t hash) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  int file_ = -1;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace heddle
