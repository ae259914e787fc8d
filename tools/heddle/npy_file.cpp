// The format: magic, version, length of the header, a Python dictionary as text, the elements.
// numpy/lib/format.py describes it.
#include "npy_file.h"

#include <cctype>
#include <cstring>
#include <string_view>

#include "heddle/support/error.h"
#include "heddle/support/file.h"

namespace heddle::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NamedType {
  std::string_view text;
  DataType dtype;
};
const NamedType kTypes[] = {{"<f2", f16}, {"<f4", f32}, {"<f8", f64}, {"|i1", i8},
                            {"<i2", i16}, {"<i4", i32}, {"<i8", i64}, {"|u1", u8},
                            {"<u2", u16}, {"<u4", u32}, {"<u8", u64}, {"|b1", boolean}};

[[noreturn]] void bad(const std::string& path, const std::string& what) {
  throw_user_error("'" + path + "' is no .npy file that can be read: " + what, {},
                   "numpy.save(path, numpy.ascontiguousarray(array)) writes one");
}

// What follows "'key':" in the header.
std::string_view value_of(const std::string& path, std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) bad(path, "its header has no " + std::string(key));
  const size_t begin = header.find_first_not_of(" ", at + key.size());
  if (begin == std::string_view::npos) bad(path, "its header ends early");
  return header.substr(begin);
}

DataType read_type(const std::string& path, std::string_view header) {
  const std::string_view text = value_of(path, header, "'descr':");
  for (const NamedType& type : kTypes) {
    if (text.size() > 4 && text.substr(1, 3) == type.text) return type.dtype;
  }
  bad(path, "its elements are of type " + std::string(text.substr(0, text.find(','))));
}

Extents read_shape(const std::string& path, std::string_view header) {
  const std::string_view text = value_of(path, header, "'shape':");
  const size_t end = text.find(')');
  if (text.front() != '(' || end == std::string_view::npos) bad(path, "its shape is damaged");
  Extents shape;
  int64_t total = 1;
  for (size_t i = 1; i < end;) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
      if (text[i] != ' ' && text[i] != ',') bad(path, "its shape is damaged");
      ++i;
      continue;
    }
    int64_t extent = 0;
    for (; i < end && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i) {
      if (extent > (int64_t{1} << 48)) bad(path, "its shape is too large");
      extent = extent * 10 + (text[i] - '0');
    }
    if (__builtin_mul_overflow(total, extent, &total) || total > (int64_t{1} << 48))
      bad(path, "its shape is too large");
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace

NDArray load_npy(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.size() < 12 || bytes.compare(0, kMagic.size(), kMagic) != 0)
    bad(path, "it does not begin like one");
  const int version = bytes[6];
  if (version < 1 || version > 3) bad(path, "its version is " + std::to_string(version));
  const size_t width = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < width; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  const size_t data = 8 + width + length;
  if (data > bytes.size()) bad(path, "it is cut off");
  const std::string_view header = std::string_view(bytes).substr(8 + width, length);
  if (value_of(path, header, "'fortran_order':").substr(0, 5) != "False")
    bad(path, "its columns are together, not its rows");
  const DataType dtype = read_type(path, header);
  const Extents shape = read_shape(path, header);
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  if (bytes.size() - data != static_cast<size_t>(elements) * static_cast<size_t>(dtype.bytes()))
    bad(path, "it has " + std::to_string(bytes.size() - data) + " bytes of elements");
  NDArray array = NDArray::empty(shape, dtype);
  if (elements > 0) std::memcpy(array.data(), bytes.data() + data, bytes.size() - data);
  return array;
}

void save_npy(const NDArray& array, const std::string& path) {
  std::string_view type;
  for (const NamedType& t : kTypes) {
    if (t.dtype == array.dtype()) type = t.text;
  }
  if (type.empty())
    throw_user_error("'" + path + "': NumPy has no type for " + to_string(array.dtype()));
  std::string header = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : array.shape()) header += std::to_string(extent) + ", ";
  header += "), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes +=
      {'\x01', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(static_cast<const char*>(array.data()), static_cast<size_t>(array.bytes()));
  write_file_atomic(path, bytes);
}

}  // namespace heddle::cli
