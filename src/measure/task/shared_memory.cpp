#include "measure/task/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "heddle/support/error.h"

namespace heddle::measuring {
namespace {

// A multiple of the page size of all supported machines, in bytes.
constexpr int64_t kPlace = 64 << 10;

[[noreturn]] void no_memory(int64_t bytes) {
  throw_runtime_error("cannot map " + std::to_string(bytes) +
                          " bytes for the arrays of a task: " + std::strerror(errno),
                      {}, "free memory, or tune smaller declarations");
}

}  // namespace

SharedRegion SharedRegion::map_at(int fd, int64_t offset, int64_t bytes, Access access) {
  SharedRegion out;
  const int kind = access == Access::Private ? MAP_PRIVATE : MAP_SHARED;
  const int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : kind;
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, flags, fd,
                      static_cast<off_t>(offset));
  if (data == MAP_FAILED) no_memory(bytes);
  out.data_ = static_cast<char*>(data);
  out.bytes_ = bytes;
  out.offset_ = offset;
  return out;
}

SharedRegion SharedRegion::anonymous(int64_t bytes) { return map_at(-1, 0, bytes, Access::Shared); }

SharedRegion SharedRegion::map(int fd, const Json& place, int64_t bytes, Access access) {
  struct stat file{};
  const int64_t offset = place.at(0).as_int();
  if (fd < 0 || ::fstat(fd, &file) != 0) throw_user_error("there is no memory that is shared here");
  // Reading mapped memory beyond the end of a file raises a signal.
  if (offset < 0 || offset % kPlace != 0 || bytes <= 0 || place.at(1).as_int() != bytes ||
      offset > file.st_size || bytes > file.st_size - offset) {
    throw_user_error("there are no " + std::to_string(bytes) + " shared bytes at " + place.dump());
  }
  return map_at(fd, offset, bytes, access);
}

SharedRegion::~SharedRegion() {
  if (data_) ::munmap(data_, static_cast<size_t>(bytes_));
  if (owner_) {
    // A failure only costs memory.
    [[maybe_unused]] const int given_back =
        ::fallocate(*owner_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(offset_), static_cast<off_t>(bytes_));
  }
}

Json SharedRegion::place() const { return Json::array({offset_, bytes_}); }

SharedMemory::SharedMemory() {
  const int fd = ::memfd_create("heddle-tasks", MFD_CLOEXEC);
  if (fd < 0) {
    throw_runtime_error(std::string("memfd_create: ") + std::strerror(errno), {},
                        "measuring needs files in memory (Linux 3.17 or newer)");
  }
  file_ = std::shared_ptr<int>(new int(fd), [](int* file) {
    ::close(*file);
    delete file;
  });
}

SharedRegion SharedMemory::allocate(int64_t bytes) {
  const int64_t offset = end_;
  const int64_t end = offset + (bytes + kPlace - 1) / kPlace * kPlace;
  if (::ftruncate(*file_, static_cast<off_t>(end)) != 0) no_memory(bytes);
  SharedRegion out = SharedRegion::map_at(*file_, offset, bytes, SharedRegion::Access::Shared);
  end_ = end;
  out.owner_ = file_;
  return out;
}

}  // namespace heddle::measuring
