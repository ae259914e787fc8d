#include "onnx/file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "heddle/support/error.h"
#include "runtime/array/deferred.h"

namespace heddle::onnx {
namespace {

[[noreturn]] void cannot_read(const std::string& path, const std::string& reason) {
  throw_runtime_error("cannot read '" + path + "': " + reason);
}

/// A part of a file, used in place in the mapping.
class InPlace : public internal::Deferred {
 public:
  InPlace(std::shared_ptr<const MappedFile> file, std::string_view part, std::string identity)
      : Deferred(std::move(identity)), file_(std::move(file)), part_(part) {}
  void* block() const override { return const_cast<char*>(part_.data()); }

 private:
  void read() override {}
  void drop() override { file_->drop(part_); }

  std::shared_ptr<const MappedFile> file_;
  std::string_view part_;
};

/// A copy of a part of a file. Its memory is reserved at once and filled when it is needed.
class Copied : public internal::Deferred {
 public:
  Copied(std::shared_ptr<const MappedFile> file, std::string_view part, std::string identity)
      : Deferred(std::move(identity)), file_(std::move(file)), part_(part) {
    block_ = ::mmap(nullptr, part_.size(), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block_ == MAP_FAILED)
      throw_runtime_error("cannot allocate an array of " + std::to_string(part_.size()) + " bytes");
  }
  ~Copied() override { ::munmap(block_, part_.size()); }
  void* block() const override { return block_; }

 private:
  void read() override {
    std::memcpy(block_, part_.data(), part_.size());
    file_->drop(part_);
  }
  void drop() override { ::madvise(block_, part_.size(), MADV_DONTNEED); }

  std::shared_ptr<const MappedFile> file_;
  std::string_view part_;
  void* block_ = nullptr;
};

/// Bytes below which arrays that are not aligned are copied at once.
constexpr size_t kSmall = size_t{1} << 14;

/// Seconds. A file that was changed this recently may change again without a new time stamp.
constexpr time_t kSettled = 2;

std::string identity_of(const struct stat& s) {
  if (::time(nullptr) - std::max(s.st_mtim.tv_sec, s.st_ctim.tv_sec) < kSettled) return {};
  const auto time = [](const timespec& t) {
    return std::to_string(t.tv_sec) + "." + std::to_string(t.tv_nsec);
  };
  return std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino) + ":" +
         std::to_string(s.st_size) + ":" + time(s.st_mtim) + ":" + time(s.st_ctim);
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK the open of a pipe waits for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) cannot_read(path, std::strerror(errno));
  struct stat status{};
  const bool known = ::fstat(fd, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string reason = known ? "" : std::strerror(errno);
    ::close(fd);
    if (!known) cannot_read(path, reason);
    throw_user_error("cannot read '" + path + "': it is no regular file", {},
                     "models and their external data are mapped into memory; copy a pipe or a "
                     "device into a file first");
  }
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->size_ = static_cast<size_t>(status.st_size);
  file->identity_ = identity_of(status);
  if (file->size_ > 0) {
    void* data = ::mmap(nullptr, file->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const std::string reason = std::strerror(errno);
      ::close(fd);
      cannot_read(path, reason);
    }
    file->data_ = data;
  }
  ::close(fd);
  return file;
}

std::shared_ptr<const MappedFile> MappedFile::of_bytes(std::string bytes) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->owned_ = std::move(bytes);
  file->data_ = file->owned_.data();
  file->size_ = file->owned_.size();
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr && data_ != owned_.data()) ::munmap(data_, size_);
}

void MappedFile::drop(std::string_view part) const {
  if (part.data() == nullptr || data_ == owned_.data()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

NDArray array_in_file(const std::shared_ptr<const MappedFile>& file, std::string_view bytes,
                      const Extents& shape, DataType dtype) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const bool aligned = address % static_cast<uintptr_t>(dtype.bytes()) == 0;
  if (bytes.empty() || (!aligned && bytes.size() < kSmall)) {
    NDArray array = NDArray::empty(shape, dtype);
    if (!bytes.empty()) std::memcpy(array.data(), bytes.data(), bytes.size());
    return array;
  }
  std::string identity = file->identity();
  if (!identity.empty()) identity += "@" + std::to_string(bytes.data() - file->bytes().data());
  Ref<internal::Deferred> storage;
  if (aligned) {
    storage = make_ref<InPlace>(file, bytes, std::move(identity));
  } else {
    storage = make_ref<Copied>(file, bytes, std::move(identity));
  }
  return internal::deferred_array(std::move(storage), shape, dtype);
}

}  // namespace heddle::onnx
