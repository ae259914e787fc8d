#include "onnx/file/tensor_data.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "heddle/support/error.h"
#include "heddle_onnx_file.pb.h"
#include "onnx/file/graph.h"

namespace heddle::onnx {

// Numbers of TensorProto.DataType that came with ONNX 1.14. An older schema has no names for them.
constexpr int32_t kFloat8E4M3FN = 17, kFloat8E5M2 = 19, kUint4 = 21, kInt4 = 22;

std::optional<DataType> four_bits_of(int32_t type) {
  if (type == kInt4) return i8;
  return type == kUint4 ? std::optional(u8) : std::nullopt;
}

DataType dtype_of(int32_t type, const std::string& what) {
  using T = onnx_file::TensorProto;
  switch (type) {
    case T::FLOAT: return f32;
    case T::UINT8: return u8;
    case T::INT8: return i8;
    case T::UINT16: return u16;
    case T::INT16: return i16;
    case T::INT32: return i32;
    case T::INT64: return i64;
    case T::BOOL: return boolean;
    case T::FLOAT16: return f16;
    case T::DOUBLE: return f64;
    case T::UINT32: return u32;
    case T::UINT64: return u64;
    case T::BFLOAT16: return bf16;
    case kFloat8E4M3FN: return f8e4m3;
    case kFloat8E5M2: return f8e5m2;
    case T::STRING: throw_user_error(what + " holds strings, which are not supported");
    case T::COMPLEX64:
    case T::COMPLEX128: throw_user_error(what + " holds complex numbers, which are not supported");
    default:
      throw_user_error(what + " has elements of type " + std::to_string(type) +
                       ", which is not supported");
  }
}

namespace {

// The number of elements. Negative extents, and products beyond any memory, are errors.
int64_t checked_size(const Extents& shape, const std::string& what) {
  int64_t size = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) throw_user_error(what + " has the negative extent " + std::to_string(extent));
    if (__builtin_mul_overflow(size, extent, &size) || size > (int64_t{1} << 48))
      throw_user_error(what + " has more elements than memory can hold");
  }
  return size;
}

void check_bytes(size_t found, int64_t wanted, const std::string& what) {
  if (found != static_cast<size_t>(wanted))
    throw_user_error(what + " has " + std::to_string(found) +
                     " bytes of data, but its shape needs " + std::to_string(wanted));
}

template <class Values>
NDArray from_values(const Values& values, int64_t elements, const Extents& shape, DataType dtype,
                    const std::string& what) {
  if (values.size() != elements)
    throw_user_error(what + " has " + std::to_string(values.size()) +
                     " values, but its shape needs " + std::to_string(elements));
  NDArray array = NDArray::empty(shape, dtype);
  auto* target = static_cast<char*>(array.data());
  for (const auto value : values) {
    // The machine is little-endian: the low bytes of an integer field are the element (of small
    // floats their bits).
    const auto stored = dtype.is_bool() ? static_cast<decltype(value)>(value != 0) : value;
    std::memcpy(target, &stored, static_cast<size_t>(dtype.bytes()));
    target += dtype.bytes();
  }
  return array;
}

NDArray from_fields(const onnx_file::TensorProto& tensor, int64_t elements, const Extents& shape,
                    DataType dtype, const std::string& what) {
  if (dtype == f32) return from_values(tensor.float_data(), elements, shape, dtype, what);
  if (dtype == f64) return from_values(tensor.double_data(), elements, shape, dtype, what);
  if (dtype == i64) return from_values(tensor.int64_data(), elements, shape, dtype, what);
  if (dtype == u32 || dtype == u64)
    return from_values(tensor.uint64_data(), elements, shape, dtype, what);
  return from_values(tensor.int32_data(), elements, shape, dtype, what);
}

// True bools may be any nonzero byte in the file. In arrays they are 1.
NDArray as_array(const std::shared_ptr<const MappedFile>& file, std::string_view bytes,
                 const Extents& shape, DataType dtype) {
  if (!dtype.is_bool()) return array_in_file(file, bytes, shape, dtype);
  NDArray array = NDArray::empty(shape, dtype);
  auto* target = static_cast<unsigned char*>(array.data());
  for (const char byte : bytes) *target++ = byte != 0;
  return array;
}

// Two numbers in each byte, the first in its low half.
NDArray unpacked(const char* bytes, int64_t elements, const Extents& shape, DataType dtype) {
  NDArray array = NDArray::empty(shape, dtype);
  auto* target = static_cast<int8_t*>(array.data());
  for (int64_t i = 0; i < elements; ++i) {
    const int half = static_cast<unsigned char>(bytes[i / 2]) >> (i % 2 * 4) & 15;
    target[i] = static_cast<int8_t>(dtype == i8 && half > 7 ? half - 16 : half);
  }
  return array;
}

int64_t parse_count(const std::string& text, const std::string& key, const std::string& what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw_user_error(what + " has external data with the " + key + " '" + text + "'", {},
                     "a whole number of bytes is needed");
  return value;
}

}  // namespace

NDArray TensorReader::read(const onnx_file::TensorProto& tensor,
                           std::optional<std::string_view> raw, const std::string& what) {
  const std::optional<DataType> packed = four_bits_of(tensor.data_type());
  const DataType dtype = packed ? *packed : dtype_of(tensor.data_type(), what);
  const Extents shape(tensor.dims().begin(), tensor.dims().end());
  const int64_t elements = checked_size(shape, what);
  const int64_t needed = packed ? (elements + 1) / 2 : elements * dtype.bytes();
  if (tensor.has_segment())
    throw_user_error(what + " is stored in segments, which are not supported");
  const auto from_bytes = [&](const std::shared_ptr<const MappedFile>& file,
                              std::string_view bytes) {
    check_bytes(bytes.size(), needed, what);
    return packed ? unpacked(bytes.data(), elements, shape, dtype)
                  : as_array(file, bytes, shape, dtype);
  };
  if (tensor.data_location() == onnx_file::TensorProto::EXTERNAL) {
    const External found = find_external(tensor, needed, what);
    return from_bytes(found.file, found.bytes);
  }
  if (raw) return from_bytes(model_, *raw);
  if (tensor.has_raw_data())
    return from_bytes(MappedFile::of_bytes(tensor.raw_data()), tensor.raw_data()).copy();
  if (!packed) return from_fields(tensor, elements, shape, dtype, what);
  return from_bytes(nullptr, std::string(tensor.int32_data().begin(), tensor.int32_data().end()));
}

TensorReader::External TensorReader::find_external(const onnx_file::TensorProto& tensor,
                                                   int64_t bytes, const std::string& what) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_count(entry.value(), "offset", what);
    if (entry.key() == "length") length = parse_count(entry.value(), "length", what);
  }
  const auto& file = external_file(location, what);
  const auto size = static_cast<int64_t>(file->bytes().size());
  if (length < 0) length = bytes;
  if (offset > size || length > size - offset)
    throw_user_error(what + " has " + std::to_string(length) + " bytes at " +
                     std::to_string(offset) + " of '" + location + "', which has only " +
                     std::to_string(size));
  return {file, file->bytes().substr(static_cast<size_t>(offset), static_cast<size_t>(length))};
}

const std::shared_ptr<const MappedFile>& TensorReader::external_file(const std::string& location,
                                                                     const std::string& what) {
  const auto known = external_.find(location);
  if (known != external_.end()) return known->second;
  namespace fs = std::filesystem;
  if (location.empty() || location.find('\0') != std::string::npos)
    throw_user_error(what + " has external data without a place");
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(model_path_).parent_path(), error);
  const fs::path file = fs::weakly_canonical(folder / location, error);
  // The path with its links resolved must lie inside the folder.
  const auto [at, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (fs::path(location).is_absolute() || at != folder.end() || rest == file.end())
    throw_user_error(
        what + " has external data in '" + location + "', which is outside of the model's folder",
        {}, "put the file beside the model");
  return external_.emplace(location, MappedFile::open(file.string())).first->second;
}

}  // namespace heddle::onnx
