// NDArray: a dense row-major array on the CPU or a GPU, the argument of a kernel.
//
//   NDArray a = NDArray::random({M, K}, f32, /*seed=*/1);
//   NDArray c = NDArray::zeros({M, N}, f32);
//   float first = c.at<float>({0, 0});
//   NDArray d = NDArray::from_dlpack(tensor_of_another_library);
//   NDArray w = NDArray::load("weights.npy").permute({2, 3, 1, 0});
//
// An NDArray is a handle: copying it is cheap and shares the elements, and copy() copies them.
// Allocated memory is 64-byte aligned; from 2 MiB on it is 2 MiB aligned and uses huge pages. f16
// and bf16 elements are read as std::uint16_t bits, 8-bit floats as std::uint8_t bits, or as
// numbers through get() and set().
//
//   NDArray on_gpu = a.to_device(Device::cuda());
//   NDArray back = on_gpu.to_host();
//
// The elements of an array on a GPU can be copied, filled and passed to kernels. Functions that
// read or write single elements throw. Work on the array is in the order of the thread's current
// stream (cuda.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "heddle/runtime/device.h"
#include "heddle/support/dtype.h"
#include "heddle/support/ref.h"

struct DLManagedTensor;

namespace heddle {

using Extents = std::vector<std::int64_t>;

class NDArray;

namespace internal {

class Storage;
class Deferred;

/// The Deferred of elements that are in a file (runtime/array/deferred.h).
Deferred* deferred_of(const NDArray& array);  // null for all other arrays
NDArray deferred_array(Ref<Deferred> storage, Extents shape, DataType dtype);

/// Whether elements of this type may be accessed as T.
template <typename T>
constexpr bool is_element_type(DataType type) {
  if (type.lanes != 1) return false;
  if constexpr (std::is_same_v<T, bool>) return type == boolean;
  if constexpr (std::is_same_v<T, double>) return type == f64;
  if constexpr (std::is_same_v<T, float>) return type == f32;
  if constexpr (std::is_integral_v<T>) {
    if (sizeof(T) == 2 && std::is_unsigned_v<T> && (type == f16 || type == bf16)) return true;
    if (sizeof(T) == 1 && std::is_unsigned_v<T> && (type == boolean || type.is_float8()))
      return true;
    return type.bits == 8 * sizeof(T) && (std::is_signed_v<T> ? type.is_int() : type.is_uint());
  }
  return false;
}

template <typename T>
constexpr DataType dtype_of() {
  for (DataType type : {f64, f32, i8, i16, i32, i64, u8, u16, u32, u64, boolean}) {
    if (is_element_type<T>(type)) return type;
  }
  return {};
}

}  // namespace internal

/// A dense row-major array on the CPU or a GPU. A copy of the object shares the elements; copy()
/// makes new ones.
class NDArray {
 public:
  NDArray();  // An undefined array: only defined() and assignment are allowed
  NDArray(const NDArray&);
  NDArray(NDArray&&) noexcept;
  NDArray& operator=(const NDArray&);
  NDArray& operator=(NDArray&&) noexcept;
  ~NDArray();

  /// A new array with undefined contents.
  static NDArray empty(Extents shape, DataType dtype, Device device = Device::cpu());
  static NDArray zeros(Extents shape, DataType dtype, Device device = Device::cpu());
  static NDArray full(Extents shape, DataType dtype, double value, Device device = Device::cpu());
  /// A new array of random numbers, which are the same for the same seed on every machine. Floats
  /// are in [-1, 1), signed integers from -8 to 8, unsigned ones from 0 to 8. Bools are true with
  /// probability 1/2.
  static NDArray random(Extents shape, DataType dtype, std::uint64_t seed);
  /// The same with floats in [lo, hi) and integers in lo..hi, both included.
  static NDArray random(Extents shape, DataType dtype, std::uint64_t seed, double lo, double hi);
  /// A copy of the values, with this shape (one dimension if left out).
  template <typename T>
  static NDArray from(const std::vector<T>& values, Extents shape = {});
  /// A view of memory that the caller keeps alive.
  static NDArray wrap(void* data, Extents shape, DataType dtype, Device device = Device::cpu());
  /// Reads a file of NumPy's format .npy, versions 1 to 3, of any type of Heddle, in either byte
  /// order, in C or Fortran order. The types are those of NumPy; V2 is bf16, as ml_dtypes writes
  /// it. A file that is damaged, longer or shorter than its header says, or of another type is a
  /// User error that names the file.
  static NDArray load(const std::string& path);
  /// Writes such a file, version 1 where its header is short enough. The file is written whole or
  /// not at all (write_file_atomic). np.load reads bf16 as V2; `.view(ml_dtypes.bfloat16)` names
  /// the type.
  void save(const std::string& path) const;
  /// Takes over the tensor and calls its deleter when the last handle is destroyed. A CPU tensor
  /// that is not row-major is copied, and such a GPU tensor is refused. CPU and CUDA devices are
  /// supported.
  static NDArray from_dlpack(DLManagedTensor* tensor);
  /// Shares the elements; the receiver calls the deleter.
  DLManagedTensor* to_dlpack() const;

  bool defined() const { return data_ != nullptr; }
  int rank() const { return static_cast<int>(shape_.size()); }
  /// The extent of dimension d. A negative d counts from the last one.
  std::int64_t extent(int d) const;
  const Extents& extents() const { return shape_; }
  const Extents& shape() const { return shape_; }  // the same as extents(), under the usual name
  /// Row-major strides in elements.
  Extents strides() const;
  DataType dtype() const { return dtype_; }
  Device device() const { return device_; }
  /// Number of elements.
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * dtype_.bytes(); }

  /// The address of the elements, on device(). Elements of a file are read now and stay in memory.
  void* data() const {
    if (deferred_) [[unlikely]]
      load();
    return data_;
  }
  /// The same address without reading anything, to tell arrays apart.
  void* address() const { return data_; }
  /// The elements as T. Throws if they are of another type or not on the CPU.
  template <typename T>
  T* data() const {
    if (!internal::is_element_type<T>(dtype_) || !device_.is_cpu()) wrong_type(sizeof(T));
    return static_cast<T*>(data());
  }
  template <typename T>
  T& at(std::initializer_list<std::int64_t> index) const {
    return data<T>()[offset(index)];
  }
  /// An element of any type as a number, by row-major position. Integers beyond 2^53 are rounded.
  double get(std::int64_t position) const;
  void set(std::int64_t position, double value) const;
  void fill(double value) const;

  /// The same elements under another shape of the same size; shares them.
  NDArray view(Extents shape) const;
  /// The same, where one extent may be -1 and is then inferred.
  NDArray reshape(Extents shape) const;
  /// A copy whose dimension d is dimension order[d] of this array. Each dimension is named once;
  /// negative numbers count from the last. CPU only.
  NDArray permute(const std::vector<int>& order) const;
  /// The rows begin..end of the first dimension; shares the elements.
  NDArray rows(std::int64_t begin, std::int64_t end) const;
  /// A copy on the same device.
  NDArray copy() const;
  /// Copies between any two devices. A copy to or from the CPU is complete when this returns.
  void copy_from(const NDArray& source) const;
  /// This array if it is on `device` already, else a copy.
  NDArray to_device(Device device) const;
  NDArray to_host() const { return to_device(Device::cpu()); }
  /// Converted to another type, rounding to nearest.
  NDArray cast(DataType dtype) const;

 private:
  NDArray(Ref<internal::Storage> storage, void* data, Extents shape, DataType dtype,
          Device device = Device::cpu());
  std::int64_t offset(std::initializer_list<std::int64_t> index) const;
  [[noreturn]] void wrong_type(std::size_t bytes_of_t) const;
  void require_defined(const char* what) const;
  void require_host(const char* what) const;

  void load() const;
  friend internal::Deferred* internal::deferred_of(const NDArray& array);
  friend NDArray internal::deferred_array(Ref<internal::Deferred> storage, Extents shape,
                                          DataType dtype);

  Ref<internal::Storage> storage_;
  void* data_ = nullptr;
  bool deferred_ = false;  // the storage is a Deferred
  Extents shape_;
  DataType dtype_;
  Device device_;
  std::int64_t size_ = 0;
};

/// A new array with the type, the shape and the device of `array`.
NDArray zeros_like(const NDArray& array);
/// All elements are `value`, converted to the type of `array`.
NDArray full_like(const NDArray& array, double value);

/// The type, shape and device as text: "f32[16, 32]", "f32[16, 32] on cuda:0".
std::string describe(const NDArray& array);

/// The differences of two arrays of one shape and any types. NaN equals NaN, and NaN differs
/// infinitely from a number. Arrays on a GPU are copied to the CPU first.
struct Difference {
  double max_abs = 0;
  double max_rel = 0;                // |a-b| / max(|a|, |b|)
  std::int64_t mismatches = 0;       // where |a-b| > atol + rtol * |b|
  std::int64_t first_mismatch = -1;  // row-major position
  double first_a = 0, first_b = 0;

  bool ok() const { return mismatches == 0; }
};
/// Compares element by element. Throws a User error for different shapes.
Difference compare(const NDArray& a, const NDArray& b, double rtol, double atol);
/// A difference in words: "3 of 512 elements differ, first at [1, 2]: 0.5 and 0.25, largest
/// difference 0.25".
std::string describe(const Difference& difference, const NDArray& a);

/// The largest absolute difference.
double max_abs_diff(const NDArray& a, const NDArray& b);
/// Whether |a - b| <= atol + rtol * |b| everywhere.
bool allclose(const NDArray& a, const NDArray& b, double rtol = 1e-5, double atol = 1e-8);

template <typename T>
NDArray NDArray::from(const std::vector<T>& values, Extents shape) {
  constexpr DataType dtype = internal::dtype_of<T>();
  static_assert(internal::is_element_type<T>(dtype),
                "no DataType has this C++ type as its element");
  if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
  NDArray wrapped = empty({static_cast<std::int64_t>(values.size())}, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) wrapped.data<T>()[i] = values[i];
  return wrapped.view(std::move(shape));
}

}  // namespace heddle
