#include "heddle/runtime/ndarray.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "runtime/array/deferred.h"
#include "runtime/array/elements.h"
#include "runtime/array/storage.h"
#include "runtime/cuda/array_memory.h"
#include "runtime/machine/aligned_memory.h"
#include "runtime/machine/first_touch.h"
#include "support/out_of_memory.h"

namespace heddle {
namespace {

class OwnedStorage : public internal::Storage {
 public:
  explicit OwnedStorage(std::size_t bytes) : block(internal::allocate_aligned(bytes)) {
    if (block == nullptr) {
      throw internal::OutOfMemory("cannot allocate an array of " + std::to_string(bytes) +
                                  " bytes");
    }
  }
  ~OwnedStorage() override { internal::free_aligned(block); }

  void* block;
};

class CudaStorage : public internal::Storage {
 public:
  CudaStorage(std::size_t bytes, int index)
      : device(index), block(cuda::allocate_array(bytes, index)) {}
  ~CudaStorage() override { cuda::free_array(block, device); }

  int device;
  void* block;
};

std::string shape_text(const Extents& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::int64_t checked_size(const Extents& shape, DataType dtype) {
  if (dtype.lanes != 1) {
    throw_user_error("an array has scalar elements, not " + to_string(dtype), {},
                     "add a dimension of " + std::to_string(dtype.lanes));
  }
  std::int64_t size = 1;
  bool empty = false;
  for (std::int64_t extent : shape) {
    if (extent < 0) throw_user_error("an array cannot have the shape " + shape_text(shape));
    empty |= extent == 0;
    if (extent != 0 && __builtin_mul_overflow(size, extent, &size)) {
      throw_user_error("an array of shape " + shape_text(shape) + " has too many elements");
    }
  }
  if (std::int64_t bytes = 0; __builtin_mul_overflow(size, dtype.bytes(), &bytes)) {
    throw_user_error("an array of shape " + shape_text(shape) + " has too many elements");
  }
  return empty ? 0 : size;
}

}  // namespace

NDArray::NDArray() = default;
NDArray::NDArray(const NDArray&) = default;
NDArray& NDArray::operator=(const NDArray&) = default;
NDArray::~NDArray() = default;

NDArray::NDArray(NDArray&& other) noexcept
    : storage_(std::move(other.storage_)),
      data_(std::exchange(other.data_, nullptr)),
      deferred_(std::exchange(other.deferred_, false)),
      shape_(std::move(other.shape_)),
      dtype_(other.dtype_),
      device_(other.device_),
      size_(std::exchange(other.size_, 0)) {}

NDArray& NDArray::operator=(NDArray&& other) noexcept {
  storage_ = std::move(other.storage_);
  data_ = std::exchange(other.data_, nullptr);
  deferred_ = std::exchange(other.deferred_, false);
  shape_ = std::move(other.shape_);
  dtype_ = other.dtype_;
  device_ = other.device_;
  size_ = std::exchange(other.size_, 0);
  return *this;
}

NDArray::NDArray(Ref<internal::Storage> storage, void* data, Extents shape, DataType dtype,
                 Device device)
    : storage_(std::move(storage)),
      data_(data),
      deferred_(storage_ && storage_->is_deferred()),
      shape_(std::move(shape)),
      dtype_(dtype),
      device_(device),
      size_(checked_size(shape_, dtype)) {}

NDArray NDArray::empty(Extents shape, DataType dtype, Device device) {
  // At least one byte, so that an array without elements has an address and is defined.
  const auto bytes = static_cast<std::size_t>(
      std::max<std::int64_t>(checked_size(shape, dtype) * dtype.bytes(), 1));
  if (device.is_cuda()) {
    auto storage = make_ref<CudaStorage>(bytes, device.index);
    void* block = storage->block;
    return {std::move(storage), block, std::move(shape), dtype, device};
  }
  auto storage = make_ref<OwnedStorage>(bytes);
  void* block = storage->block;
  return {std::move(storage), block, std::move(shape), dtype};
}

NDArray NDArray::zeros(Extents shape, DataType dtype, Device device) {
  NDArray array = empty(std::move(shape), dtype, device);
  if (device.is_cuda()) {
    array.fill(0);
  } else {
    internal::touch_by_parts(array.data_, static_cast<std::size_t>(array.bytes()));
    std::memset(array.data_, 0, static_cast<std::size_t>(array.bytes()));
  }
  return array;
}

NDArray NDArray::full(Extents shape, DataType dtype, double value, Device device) {
  NDArray array = empty(std::move(shape), dtype, device);
  if (device.is_cpu())
    internal::touch_by_parts(array.data_, static_cast<std::size_t>(array.bytes()));
  array.fill(value);
  return array;
}

NDArray zeros_like(const NDArray& array) {
  return NDArray::zeros(array.extents(), array.dtype(), array.device());
}

NDArray full_like(const NDArray& array, double value) {
  return NDArray::full(array.extents(), array.dtype(), value, array.device());
}

NDArray NDArray::random(Extents shape, DataType dtype, std::uint64_t seed) {
  switch (dtype.code) {
    case TypeCode::Bool: return random(std::move(shape), dtype, seed, 0, 1);
    case TypeCode::Int: return random(std::move(shape), dtype, seed, -8, 8);
    case TypeCode::UInt: return random(std::move(shape), dtype, seed, 0, 8);
    case TypeCode::Float:
    case TypeCode::BFloat:
    case TypeCode::E4M3:
    case TypeCode::E5M2: break;
  }
  return random(std::move(shape), dtype, seed, -1, 1);
}

NDArray NDArray::random(Extents shape, DataType dtype, std::uint64_t seed, double lo, double hi) {
  // Doubles represent all integers up to this one.
  constexpr double kLargest = 9007199254740992;  // 2^53
  if (!(lo <= hi) || (dtype.is_integral() && (lo < -kLargest || hi > kLargest))) {
    throw_user_error("random numbers of type " + to_string(dtype) + " from " + std::to_string(lo) +
                         " to " + std::to_string(hi),
                     {}, "the first is at most the second, and integers are within 2^53 of 0");
  }
  NDArray array = empty(std::move(shape), dtype);
  internal::touch_by_parts(array.data_, static_cast<std::size_t>(array.bytes()));
  Rng rng(seed);
  internal::visit_elements(dtype, array.data(), [&](auto* elements) {
    if (dtype.is_integral()) {
      const auto first = static_cast<std::int64_t>(lo), last = static_cast<std::int64_t>(hi);
      for (std::int64_t i = 0; i < array.size_; ++i) {
        internal::store_number(elements[i], static_cast<double>(rng.uniform_int(first, last)));
      }
    } else {
      for (std::int64_t i = 0; i < array.size_; ++i) {
        internal::store_number(elements[i], rng.uniform_real(lo, hi));
      }
    }
  });
  return array;
}

NDArray NDArray::wrap(void* data, Extents shape, DataType dtype, Device device) {
  if (data == nullptr) throw_user_error("cannot wrap a null pointer as an array");
  return {nullptr, data, std::move(shape), dtype, device};
}

std::int64_t NDArray::extent(int d) const {
  if (d < -rank() || d >= rank()) {
    throw_user_error("no dimension " + std::to_string(d) + " in " + describe(*this));
  }
  return shape_[static_cast<std::size_t>(d < 0 ? d + rank() : d)];
}

Extents NDArray::strides() const {
  Extents strides(shape_.size());
  std::int64_t step = 1;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape_[i];
  }
  return strides;
}

double NDArray::get(std::int64_t position) const {
  require_host("read single elements of");
  if (position < 0 || position >= size_) {
    throw_user_error("no element " + std::to_string(position) + " in " + describe(*this));
  }
  return internal::visit_elements(dtype_, data(), [&](const auto* elements) {
    return static_cast<double>(elements[position]);
  });
}

void NDArray::set(std::int64_t position, double value) const {
  require_host("write single elements of");
  if (position < 0 || position >= size_) {
    throw_user_error("no element " + std::to_string(position) + " in " + describe(*this));
  }
  internal::visit_elements(
      dtype_, data(), [&](auto* elements) { internal::store_number(elements[position], value); });
}

void NDArray::fill(double value) const {
  require_defined("fill");
  if (device_.is_cuda()) {
    NDArray one = empty({}, dtype_);
    one.set(0, value);
    std::uint64_t bits = 0;
    std::memcpy(&bits, one.data_, static_cast<std::size_t>(dtype_.bytes()));
    cuda::fill_elements(data_, device_.index, bits, dtype_.bytes(),
                        static_cast<std::size_t>(size_));
    return;
  }
  internal::visit_elements(dtype_, data(), [&](auto* elements) {
    for (std::int64_t i = 0; i < size_; ++i) internal::store_number(elements[i], value);
  });
}

NDArray NDArray::view(Extents shape) const {
  require_defined("view");
  if (checked_size(shape, dtype_) != size_) {
    throw_user_error("cannot view " + describe(*this) + " as " + shape_text(shape) +
                     ": the numbers of elements differ");
  }
  return {storage_, data_, std::move(shape), dtype_, device_};
}

NDArray NDArray::rows(std::int64_t begin, std::int64_t end) const {
  require_defined("take rows of");
  if (shape_.empty() || begin < 0 || begin > end || end > shape_[0]) {
    throw_user_error("no rows " + std::to_string(begin) + ".." + std::to_string(end) + " in " +
                     describe(*this));
  }
  Extents shape = shape_;
  shape[0] = end - begin;
  const std::int64_t row_bytes = strides()[0] * dtype_.bytes();
  return {storage_, static_cast<char*>(data_) + begin * row_bytes, std::move(shape), dtype_,
          device_};
}

NDArray NDArray::copy() const {
  require_defined("copy");
  NDArray result = empty(shape_, dtype_, device_);
  result.copy_from(*this);
  return result;
}

NDArray NDArray::to_device(Device device) const {
  require_defined("copy");
  if (device == device_) return *this;
  NDArray result = empty(shape_, dtype_, device);
  result.copy_from(*this);
  return result;
}

void NDArray::copy_from(const NDArray& source) const {
  require_defined("copy into");
  source.require_defined("copy from");
  if (source.shape_ != shape_ || source.dtype_ != dtype_) {
    throw_user_error("cannot copy " + describe(source) + " into " + describe(*this));
  }
  const auto count = static_cast<std::size_t>(bytes());
  const internal::Pinned in_memory({&source, 1});
  if (device_.is_cpu() && source.device_.is_cpu()) {
    std::memmove(data(), source.address(), count);
  } else {
    cuda::copy_bytes(data(), device_, source.address(), source.device_, count);
  }
}

NDArray NDArray::cast(DataType dtype) const {
  require_host("cast");
  NDArray result = empty(shape_, dtype);
  const internal::Pinned in_memory({this, 1});
  internal::visit_elements(dtype_, data_, [&](const auto* from) {
    internal::visit_elements(dtype, result.data_, [&](auto* to) {
      using From = std::remove_cvref_t<decltype(*from)>;
      using To = std::remove_cvref_t<decltype(*to)>;
      for (std::int64_t i = 0; i < size_; ++i) {
        if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
          to[i] = static_cast<To>(from[i]);  // through double, large integers would be rounded
        } else {
          internal::store_number(to[i], static_cast<double>(from[i]));
        }
      }
    });
  });
  return result;
}

std::int64_t NDArray::offset(std::initializer_list<std::int64_t> index) const {
  std::int64_t position = 0;
  std::size_t d = 0;
  bool inside = index.size() == shape_.size();
  for (std::int64_t i : index) {
    if (!inside) break;
    inside = i >= 0 && i < shape_[d];
    position = position * shape_[d++] + i;
  }
  if (!inside) throw_user_error("no element " + shape_text(index) + " in " + describe(*this));
  return position;
}

void NDArray::wrong_type(std::size_t bytes_of_t) const {
  require_host("read");
  throw_user_error("the elements of " + describe(*this) +
                       " are not of the C++ type asked for, of " + std::to_string(bytes_of_t) +
                       " bytes",
                   {}, "get() and set() work for every type");
}

void NDArray::require_defined(const char* what) const {
  if (!defined()) throw_user_error(std::string("cannot ") + what + " an undefined array");
}

void NDArray::require_host(const char* what) const {
  require_defined(what);
  if (device_.is_cpu()) return;
  throw_user_error(std::string("cannot ") + what + " " + describe(*this), {},
                   "copy it to the CPU first: to_host()");
}

std::string to_string(Device device) {
  return device.is_cuda() ? "cuda:" + std::to_string(device.index) : "cpu";
}

std::string describe(const NDArray& array) {
  if (!array.defined()) return "an undefined array";
  return to_string(array.dtype()) + shape_text(array.shape()) +
         (array.device().is_cuda() ? " on " + to_string(array.device()) : "");
}

}  // namespace heddle
