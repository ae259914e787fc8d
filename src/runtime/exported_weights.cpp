#include "runtime/exported_weights.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "heddle/support/error.h"

namespace heddle {
namespace {

[[noreturn]] void cannot_read(const std::string& path, const std::string& why) {
  throw_runtime_error("cannot read the weights '" + path + "': " + why);
}

}  // namespace

ExportedWeights::ExportedWeights(const std::string& path, const char* name,
                                 const Expected& expected) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) cannot_read(path, std::strerror(errno));
  struct stat status{};
  const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  bytes_ = kExportedPage + static_cast<size_t>(expected.bytes);
  ExportedWeightsHeader header, wanted;
  const bool whole = is_file && static_cast<size_t>(status.st_size) == bytes_ &&
                     ::pread(file, &header, sizeof header, 0) == sizeof header;
  wanted.hash = expected.hash;
  wanted.bytes = expected.bytes;
  if (!whole || std::memcmp(&header, &wanted, sizeof header) != 0) {
    ::close(file);
    cannot_read(path, std::string("it is not the file that was written with this library of '") +
                          name + "'");
  }
  data_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
  const int reason = errno;
  ::close(file);
  if (data_ == MAP_FAILED) cannot_read(path, std::strerror(reason));
  ::madvise(data_, bytes_, MADV_WILLNEED);
}

ExportedWeights::~ExportedWeights() { ::munmap(data_, bytes_); }

}  // namespace heddle
