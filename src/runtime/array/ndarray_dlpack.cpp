#include <dlpack/dlpack.h>

#include <cstring>
#include <memory>
#include <utility>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "runtime/array/storage.h"

namespace heddle {
namespace {

// DLPack 0.6, which Debian ships, has no names for these codes. Later versions do.
constexpr std::uint8_t kBoolCode = 6, kE4M3Code = 10, kE5M2Code = 12;

class ForeignStorage : public internal::Storage {
 public:
  explicit ForeignStorage(DLManagedTensor* tensor) : tensor_(tensor) {}
  ~ForeignStorage() override {
    if (tensor_->deleter != nullptr) tensor_->deleter(tensor_);
  }

 private:
  DLManagedTensor* tensor_;
};

DataType from_dl(DLDataType type) {
  const std::string found =
      "code " + std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits";
  DataType result{TypeCode::Float, type.bits, 1};
  switch (type.code) {
    case kDLInt: result.code = TypeCode::Int; break;
    case kDLUInt: result.code = TypeCode::UInt; break;
    case kDLFloat: result.code = TypeCode::Float; break;
    case kDLBfloat: result.code = TypeCode::BFloat; break;
    case kE4M3Code: result.code = TypeCode::E4M3; break;
    case kE5M2Code: result.code = TypeCode::E5M2; break;
    case kBoolCode: return boolean;
    default: throw_user_error("a DLPack tensor has elements of an unknown type: " + found);
  }
  if (type.lanes != 1 || !parse_dtype(to_string(result))) {
    throw_user_error("a DLPack tensor has elements of an unsupported type: " + found + ", " +
                     std::to_string(type.lanes) + " lanes");
  }
  return result;
}

DLDataType to_dl(DataType type) {
  switch (type.code) {
    case TypeCode::Bool: return {kBoolCode, 8, 1};
    case TypeCode::Int: return {kDLInt, type.bits, 1};
    case TypeCode::UInt: return {kDLUInt, type.bits, 1};
    case TypeCode::Float: return {kDLFloat, type.bits, 1};
    case TypeCode::BFloat: return {kDLBfloat, type.bits, 1};
    case TypeCode::E4M3: return {kE4M3Code, type.bits, 1};
    case TypeCode::E5M2: return {kE5M2Code, type.bits, 1};
  }
  return {kDLFloat, 32, 1};
}

bool is_row_major(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t step = 1;
  for (int i = tensor.ndim; i-- > 0;) {
    // The stride of a dimension of one element is never used, and libraries store arbitrary values
    // there.
    if (tensor.shape[i] != 1 && tensor.strides[i] != step) return false;
    step *= tensor.shape[i];
  }
  return true;
}

void copy_strided(const DLTensor& tensor, const char* source, char*& target, std::size_t bytes,
                  int dimension) {
  if (dimension == tensor.ndim) {
    std::memcpy(target, source, bytes);
    target += bytes;
    return;
  }
  const std::int64_t step = tensor.strides[dimension] * static_cast<std::int64_t>(bytes);
  for (std::int64_t i = 0; i < tensor.shape[dimension]; ++i) {
    copy_strided(tensor, source + i * step, target, bytes, dimension + 1);
  }
}

// The DLManagedTensor that is handed out, and the data that it points to.
struct Exported {
  DLManagedTensor managed = {};
  NDArray array;
  Extents shape;
  Extents strides;
};

}  // namespace

NDArray NDArray::from_dlpack(DLManagedTensor* tensor) {
  if (tensor == nullptr) throw_user_error("a null DLPack tensor");
  const DLTensor& dl = tensor->dl_tensor;
  // The tensor belongs to the caller until all checks have passed.
  const bool on_gpu = dl.device.device_type == kDLCUDA;
  if (!on_gpu && dl.device.device_type != kDLCPU && dl.device.device_type != kDLCUDAHost) {
    throw_user_error("a DLPack tensor is on device type " + std::to_string(dl.device.device_type) +
                         ", neither on the CPU nor on a CUDA device",
                     {}, "copy it to the CPU first");
  }
  const Device device = on_gpu ? Device::cuda(dl.device.device_id) : Device::cpu();
  const DataType dtype = from_dl(dl.dtype);
  Extents shape(dl.shape, dl.shape + dl.ndim);
  char* data = static_cast<char*>(dl.data) + dl.byte_offset;
  if (on_gpu && !is_row_major(dl)) {
    throw_user_error("a DLPack tensor on " + to_string(device) + " is not row-major", {},
                     "make it so before it is handed over (PyTorch: contiguous())");
  }
  if (dl.data == nullptr || !is_row_major(dl)) {
    NDArray copied = empty(std::move(shape), dtype, device);
    if (dl.data == nullptr && copied.size() > 0) {
      throw_user_error("a DLPack tensor has no data");
    }
    char* target = static_cast<char*>(copied.data_);
    if (copied.size() > 0) {
      copy_strided(dl, data, target, static_cast<std::size_t>(dtype.bytes()), 0);
    }
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
    return copied;
  }
  NDArray array(nullptr, data, std::move(shape), dtype, device);
  array.storage_ = make_ref<ForeignStorage>(tensor);
  return array;
}

DLManagedTensor* NDArray::to_dlpack() const {
  require_defined("export");
  auto exported = std::make_unique<Exported>();
  exported->array = *this;
  exported->shape = shape_;
  exported->strides = strides();
  DLManagedTensor& managed = exported->managed;
  managed.dl_tensor.data = data();
  managed.dl_tensor.device = {device_.is_cuda() ? kDLCUDA : kDLCPU, device_.index};
  managed.dl_tensor.ndim = rank();
  managed.dl_tensor.dtype = to_dl(dtype_);
  managed.dl_tensor.shape = exported->shape.data();
  managed.dl_tensor.strides = exported->strides.data();
  managed.dl_tensor.byte_offset = 0;
  managed.manager_ctx = exported.get();
  managed.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
  return &exported.release()->managed;
}

}  // namespace heddle
