// Files of NumPy's format .npy: the magic, a version, the length of a header, the header (a Python
// dictionary as text), and the elements. numpy/lib/format.py describes it.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "runtime/array/npy.h"
#include "support/files/file.h"

namespace heddle {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlign = 64;     // bytes; the elements begin at a multiple of it
constexpr std::size_t kMostRank = 64;  // NumPy's own limit

/// The contents of a header.
struct Header {
  DataType dtype;
  bool swapped = false;  ///< the elements have the other byte order
  bool fortran_order = false;
  Extents shape;
};

[[noreturn]] void bad(const std::string& path, const std::string& what,
                      const std::string& help = "np.save writes such files") {
  throw_user_error("'" + path + "' is no .npy file that can be read: " + what, {}, help);
}

struct NamedType {
  std::string_view text;  // kind and bytes
  DataType dtype;
};
// NumPy has no bf16. The bf16 of ml_dtypes is written as two bytes without a kind.
const NamedType kTypes[] = {{"f2", f16}, {"f4", f32}, {"f8", f64},    {"V2", bf16}, {"i1", i8},
                            {"i2", i16}, {"i4", i32}, {"i8", i64},    {"u1", u8},   {"u2", u16},
                            {"u4", u32}, {"u8", u64}, {"b1", boolean}};

/// Reads the dictionary: three keys in any order, of a string, a bool and a tuple of integers.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  Header parse() {
    Header header;
    bool type = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key(quoted());
      expect(':');
      if (key == "descr" && !type) {
        set_type(&header);
        type = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = truth();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = tuple();
        shape = true;
      } else {
        bad(path_, "its header has the key '" + key + "', or has it twice",
            "there are descr, fortran_order and shape, each once");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (!rest_.empty()) bad(path_, "its header goes on behind the dictionary");
    if (!type || !order || !shape) bad(path_, "its header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) bad(path_, std::string("its header has no '") + c + "' where there must be one");
  }
  std::string_view quoted() {
    skip();
    const char quote = rest_.empty() ? ' ' : rest_[0];
    const std::size_t end = rest_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos) {
      bad(path_, "its header has no text in quotes where there must be one",
          "records of several fields are not read");
    }
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    skip();
    for (const std::string_view word : {"True", "False"}) {
      if (rest_.substr(0, word.size()) != word) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    bad(path_, "fortran_order is neither True nor False");
  }
  Extents tuple() {
    Extents shape;
    expect('(');
    while (!take(')')) {
      if (shape.size() == kMostRank) bad(path_, "it has too many dimensions");
      shape.push_back(number());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }
  std::int64_t number() {
    skip();
    std::int64_t value = 0;
    std::size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, rest_[digits] - '0', &value)) {
        bad(path_, "an extent of its shape is too large");
      }
      ++digits;
    }
    if (digits == 0) bad(path_, "an extent of its shape is no number");
    rest_.remove_prefix(digits);
    if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // Python 2 wrote 3L
    return value;
  }
  void set_type(Header* header) {
    const std::string text(quoted());
    const bool ordered = !text.empty() && std::strchr("<>|=", text[0]) != nullptr;
    const std::string_view name = std::string_view(text).substr(ordered ? 1 : 0);
    for (const NamedType& t : kTypes) {
      if (t.text != name) continue;
      header->dtype = t.dtype;
      header->swapped = text[0] == '>' && t.dtype.bytes() > 1;
      return;
    }
    bad(path_, "its elements are of type '" + text + "'",
        "convert it first: array.astype(np.float32)");
  }

  const std::string& path_;
  std::string_view rest_;
};

void swap_bytes(char* data, std::size_t count, std::size_t width) {
  for (std::size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

/// The size in bytes of the elements of such a header, or nullopt where it exceeds any memory.
std::optional<std::size_t> bytes_of(const Header& header) {
  std::int64_t bytes = header.dtype.bytes();
  bool empty = false;
  for (const std::int64_t extent : header.shape) {
    empty |= extent == 0;
    if (extent != 0 && __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<std::size_t>(bytes);
}

/// NumPy's name of the type, such as "<f4".
std::string name_of(DataType dtype) {
  for (const NamedType& t : kTypes) {
    if (t.dtype == dtype) return (dtype.bytes() == 1 ? "|" : "<") + std::string(t.text);
  }
  throw_user_error("NumPy has no type for " + to_string(dtype), {},
                   "convert the array first: ops::cast(x, f32)");
}

NDArray array_of(const std::string& path, const Header& header, std::string_view data) {
  const std::optional<std::size_t> bytes = bytes_of(header);
  if (!bytes || *bytes != data.size()) {
    bad(path,
        "its header promises " + (bytes ? std::to_string(*bytes) : "too many") +
            " bytes of elements, but there are " + std::to_string(data.size()),
        "the file is damaged, or was not written to its end");
  }
  Extents shape = header.shape;
  if (header.fortran_order) std::reverse(shape.begin(), shape.end());
  NDArray array = NDArray::empty(shape, header.dtype);
  auto* to = static_cast<char*>(array.data());
  std::memcpy(to, data.data(), data.size());
  const auto width = static_cast<std::size_t>(header.dtype.bytes());
  if (header.swapped) swap_bytes(to, data.size() / width, width);
  if (header.dtype == boolean) {
    for (std::size_t i = 0; i < data.size(); ++i) to[i] = to[i] != 0;  // a C++ bool is 0 or 1
  }
  if (!header.fortran_order || shape.size() < 2) return array;
  std::vector<int> reversed;
  for (int d = array.rank(); d-- > 0;) reversed.push_back(d);
  return array.permute(reversed);
}

}  // namespace

NDArray internal::read_npy(std::string_view file, const std::string& path) {
  if (file.substr(0, kMagic.size()) != kMagic) bad(path, "it does not begin with \\x93NUMPY");
  if (file.size() < kMagic.size() + 4) bad(path, "it ends within its header");
  const int version = static_cast<unsigned char>(file[kMagic.size()]);
  if (version < 1 || version > 3) {
    bad(path, "its version is " + std::to_string(version), "versions 1 to 3 are known");
  }
  const std::size_t width = version == 1 ? 2 : 4, start = kMagic.size() + 2 + width;
  if (file.size() < start) bad(path, "it ends within its header");
  std::size_t length = 0;
  for (std::size_t i = width; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(file[kMagic.size() + 2 + i]);
  }
  if (length > file.size() - start) bad(path, "it ends within its header");
  const Header header = HeaderParser(path, file.substr(start, length)).parse();
  return array_of(path, header, file.substr(start + length));
}

NDArray NDArray::load(const std::string& path) { return internal::read_npy(read_file(path), path); }

std::string internal::write_npy(const NDArray& array) {
  const NDArray host = array.to_host();
  const Extents& shape = array.shape();
  std::string header =
      "{'descr': '" + name_of(array.dtype()) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    header += (d > 0 ? " " : "") + std::to_string(shape[d]) + ",";
  }
  if (shape.size() > 1) header.pop_back();  // (3,) and (3, 4)
  header += "), }";
  // Version 1 has two bytes for the length, later ones four.
  const bool is_short = header.size() + 2 * kAlign < 65536;
  const std::size_t width = is_short ? 2 : 4, start = kMagic.size() + 2 + width;
  header.append(kAlign - (start + header.size() + 1) % kAlign, ' ');
  header += '\n';
  std::string content(kMagic);
  content += is_short ? '\1' : '\2';
  content += '\0';
  for (std::size_t i = 0; i < width; ++i) {
    content += static_cast<char>(header.size() >> 8 * i & 0xff);
  }
  content += header;
  content.append(static_cast<const char*>(host.data()), static_cast<std::size_t>(array.bytes()));
  return content;
}

void NDArray::save(const std::string& path) const {
  require_defined("save");
  write_file_atomic(path, internal::write_npy(*this));
}

}  // namespace heddle
