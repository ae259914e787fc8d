#include "network/export/weights_file.h"

#include <array>
#include <cerrno>
#include <cstring>

#include "heddle/support/error.h"
#include "runtime/exported/network.h"

namespace heddle::network {

WeightsFile::WeightsFile(std::string path)
    : path_(std::move(path)), file_(path_, std::ios::binary | std::ios::trunc) {
  const std::string page(kExportedPage, '\0');
  file_.write(page.data(), kExportedPage);
  check();
}

int64_t WeightsFile::add(const void* data, int64_t bytes) {
  static constexpr std::array<char, kExportedAlignment> kZeros{};
  const int64_t begin = (bytes_ + kExportedAlignment - 1) / kExportedAlignment * kExportedAlignment;
  write(kZeros.data(), begin - bytes_);
  write(data, bytes);
  check();
  bytes_ = begin + bytes;
  return begin;
}

void WeightsFile::write(const void* data, int64_t bytes) {
  file_.write(static_cast<const char*>(data), bytes);
  sum_.add(data, static_cast<size_t>(bytes));
}

void WeightsFile::finish() {
  ExportedWeightsHeader header;
  header.hash = hash();
  header.bytes = bytes_;
  file_.seekp(0);
  file_.write(reinterpret_cast<const char*>(&header), sizeof header);
  file_.close();
  check();
}

void WeightsFile::check() const {
  if (file_.good()) return;
  throw_runtime_error("cannot write '" + path_ + "': " + std::strerror(errno));
}

}  // namespace heddle::network
