#include "onnx/mapped_file.h"

#include <dlpack/dlpack.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "heddle/support/error.h"

namespace heddle::onnx {
namespace {

[[noreturn]] void cannot_read(const std::string& path, const std::string& reason) {
  throw_runtime_error("cannot read '" + path + "': " + reason);
}

constexpr uint8_t kDlBool = 6;  // DLPack 0.6 has no name for it

DLDataType dl_type(DataType type) {
  switch (type.code) {
    case TypeCode::Bool: return {kDlBool, 8, 1};
    case TypeCode::Int: return {kDLInt, type.bits, 1};
    case TypeCode::UInt: return {kDLUInt, type.bits, 1};
    case TypeCode::Float: return {kDLFloat, type.bits, 1};
    case TypeCode::BFloat: return {kDLBfloat, type.bits, 1};
  }
  return {kDLFloat, 32, 1};
}

// A part of a mapped file as DLPack's tensor, through which an NDArray keeps the file.
struct Part {
  std::shared_ptr<const MappedFile> file;
  Extents shape;
  DLManagedTensor tensor{};
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) cannot_read(path, std::strerror(errno));
  struct stat status{};
  const bool known = ::fstat(fd, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string reason = known ? "it is not a file" : std::strerror(errno);
    ::close(fd);
    cannot_read(path, reason);
  }
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->size_ = static_cast<size_t>(status.st_size);
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

NDArray array_in_file(const std::shared_ptr<const MappedFile>& file, std::string_view bytes,
                      const Extents& shape, DataType dtype) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  if (bytes.empty() || address % static_cast<uintptr_t>(dtype.bytes()) != 0) {
    NDArray array = NDArray::empty(shape, dtype);
    if (!bytes.empty()) std::memcpy(array.data(), bytes.data(), bytes.size());
    return array;
  }
  auto part = std::make_unique<Part>();
  part->file = file;
  part->shape = shape;
  DLTensor& t = part->tensor.dl_tensor;
  t.data = const_cast<char*>(bytes.data());
  t.device = {kDLCPU, 0};
  t.ndim = static_cast<int>(shape.size());
  t.dtype = dl_type(dtype);
  t.shape = part->shape.data();
  part->tensor.manager_ctx = part.get();
  part->tensor.deleter = [](DLManagedTensor* self) {
    delete static_cast<Part*>(self->manager_ctx);
  };
  return NDArray::from_dlpack(&part.release()->tensor);
}

}  // namespace heddle::onnx
