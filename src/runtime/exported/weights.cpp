#include "runtime/exported/weights.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "heddle/support/error.h"
#include "support/hashing/checksum.h"

namespace heddle {

std::string weights_path(const void* address, const char* name, const char* named) {
  if (named != nullptr) return named;
  Dl_info info;
  const std::string library = ::dladdr(address, &info) != 0 ? info.dli_fname : "";
  return library.substr(0, library.rfind('/') + 1) + name + ".weights";
}

void ExportedWeights::refuse(const std::string& why) const {
  throw_runtime_error("cannot read the weights '" + path_ + "': " + why);
}

ExportedWeights::ExportedWeights(std::string path, const ExportedProgram& program)
    : path_(std::move(path)), bytes_(kExportedPage + static_cast<size_t>(program.weights_bytes)) {
  // Without O_NONBLOCK the call would wait for a writer of a pipe.
  file_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file_ < 0) refuse(std::strerror(errno));
  try {
    check_header(program);
    if (program.check_weights) check_contents(program.weights_hash);
  } catch (...) {
    ::close(file_);
    throw;
  }
  data_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file_, 0);
  if (data_ == MAP_FAILED) {
    const int reason = errno;
    ::close(file_);
    refuse(std::strerror(reason));
  }
  ::madvise(data_, bytes_, MADV_WILLNEED);
}

ExportedWeights::~ExportedWeights() {
  ::munmap(data_, bytes_);
  ::close(file_);
}

void ExportedWeights::check_header(const ExportedProgram& program) const {
  struct stat status{};
  const bool is_file = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
  ExportedWeightsHeader header, wanted;
  const bool whole = is_file && static_cast<size_t>(status.st_size) == bytes_ &&
                     ::pread(file_, &header, sizeof header, 0) == sizeof header;
  wanted.hash = program.weights_hash;
  wanted.bytes = program.weights_bytes;
  if (whole && std::memcmp(&header, &wanted, sizeof header) == 0) return;
  refuse("it is not the file that was written with this library of '" + program.name + "'");
}

// The contents are read and not mapped: a read of a file that was just cut ends, and a page of it
// ends the process.
void ExportedWeights::check_contents(uint64_t hash) const {
  std::vector<char> part(size_t{1} << 18);
  internal::Checksum sum;
  for (size_t at = kExportedPage; at < bytes_;) {
    const ssize_t n =
        ::pread(file_, part.data(), std::min(part.size(), bytes_ - at), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(std::strerror(errno));
    if (n == 0) refuse("it was cut while it was read");
    sum.add(part.data(), static_cast<size_t>(n));
    at += static_cast<size_t>(n);
  }
  if (sum.value() != hash) refuse("it is damaged: its contents are not those that were written");
}

void ExportedWeights::check_length() const {
  struct stat status{};
  if (::fstat(file_, &status) == 0 && static_cast<size_t>(status.st_size) >= bytes_) return;
  refuse("it was cut while the network is open; restore it, and open the network again");
}

}  // namespace heddle
