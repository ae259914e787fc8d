// Reads and holds the tensors of one "HDDL1" file, the container of tutorials/data (its README has
// the layout). Header-only and plain C++20, so that a tutorial can be read without looking further.
#ifndef HEDDLE_TUTORIALS_COMMON_TENSOR_FILE_H_
#define HEDDLE_TUTORIALS_COMMON_TENSOR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::tutorials {

// Thrown for a file that cannot be opened, is cut short, or does not follow the format.
class TensorFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct NamedTensor {
  std::string name;
  std::string dtype;  // "f32", "i32" or "u8"
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  // row-major, little-endian

  int64_t element_count() const {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    return count;
  }

  // A copy as a vector of T; `expected` is the dtype T stands for, so that a mismatch is an error
  // here and not a wrong number later.
  template <typename T>
  std::vector<T> values(std::string_view expected) const {
    if (dtype != expected || bytes.size() != static_cast<size_t>(element_count()) * sizeof(T)) {
      throw TensorFileError("tensor '" + name + "' is " + dtype + ", not " + std::string(expected));
    }
    std::vector<T> out(static_cast<size_t>(element_count()));
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  std::vector<float> f32() const { return values<float>("f32"); }
  std::vector<int32_t> i32() const { return values<int32_t>("i32"); }
  std::vector<uint8_t> u8() const { return values<uint8_t>("u8"); }
};

struct TensorFile {
  std::vector<NamedTensor> tensors;

  const NamedTensor& at(std::string_view name) const {
    for (const NamedTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw TensorFileError("the file has no tensor '" + std::string(name) + "'");
  }
};

namespace tensor_file_internal {

struct Entry {
  NamedTensor tensor;
  int64_t offset = -1;
  int64_t bytes = -1;
};

// The JSON the header needs and no more: objects, arrays, plain strings and whole numbers >= 0.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::vector<Entry> parse() {
    std::vector<Entry> entries;
    expect('{');
    if (string() != "tensors") fail("the key \"tensors\"");
    expect(':');
    expect('[');
    if (!accept(']')) {
      do {
        entries.push_back(entry());
      } while (accept(','));
      expect(']');
    }
    expect('}');
    skip_space();
    if (at_ != text_.size()) fail("the end of the header");
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& wanted) const {
    throw TensorFileError("bad header: " + wanted + " expected at character " +
                          std::to_string(at_));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  std::string string() {
    expect('"');
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') fail("a string without escapes");
      ++at_;
    }
    if (at_ >= text_.size()) fail("the end of a string");
    return std::string(text_.substr(start, at_++ - start));
  }
  int64_t number() {
    skip_space();
    const size_t start = at_;
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (value > (std::numeric_limits<int64_t>::max() - 9) / 10) fail("a smaller number");
      value = value * 10 + (text_[at_++] - '0');
    }
    if (at_ == start) fail("a whole number");
    return value;
  }
  Entry entry() {
    Entry out;
    bool has_shape = false;
    expect('{');
    do {
      const std::string key = string();
      expect(':');
      if (key == "name") {
        out.tensor.name = string();
      } else if (key == "dtype") {
        out.tensor.dtype = string();
      } else if (key == "offset") {
        out.offset = number();
      } else if (key == "bytes") {
        out.bytes = number();
      } else if (key == "shape") {
        has_shape = true;
        expect('[');
        if (accept(']')) continue;
        do {
          out.tensor.shape.push_back(number());
        } while (accept(','));
        expect(']');
      } else {
        fail("a known key, not \"" + key + "\",");
      }
    } while (accept(','));
    expect('}');
    if (out.tensor.name.empty() || !has_shape || out.offset < 0 || out.bytes < 0) {
      fail("name, dtype, shape, offset and bytes of a tensor");
    }
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// The bytes the dtype and shape ask for; throws when they overflow or the dtype is unknown.
inline int64_t expected_bytes(const NamedTensor& tensor) {
  int64_t bytes = 0;
  if (tensor.dtype == "f32" || tensor.dtype == "i32") bytes = 4;
  if (tensor.dtype == "u8") bytes = 1;
  if (bytes == 0) {
    throw TensorFileError("tensor '" + tensor.name + "': unknown dtype '" + tensor.dtype + "'");
  }
  for (int64_t extent : tensor.shape) {
    if (extent != 0 && bytes > std::numeric_limits<int64_t>::max() / extent) {
      throw TensorFileError("tensor '" + tensor.name + "': the shape is too large");
    }
    bytes *= extent;
  }
  return bytes;
}

}  // namespace tensor_file_internal

// Parses the whole content of a file.
inline TensorFile parse_tensor_file(std::string_view content) {
  constexpr std::string_view kMagic = "HDDL1\n";
  constexpr size_t kAlignment = 64;
  if (content.substr(0, kMagic.size()) != kMagic) {
    throw TensorFileError("not an HDDL1 file (the first bytes differ)");
  }
  const size_t line_end = content.find('\n', kMagic.size());
  if (line_end == std::string_view::npos) throw TensorFileError("the header is cut short");
  tensor_file_internal::HeaderParser parser(
      content.substr(kMagic.size(), line_end - kMagic.size()));
  const size_t data_start = (line_end + 1 + kAlignment - 1) / kAlignment * kAlignment;
  const std::string_view data =
      data_start <= content.size() ? content.substr(data_start) : std::string_view();

  TensorFile file;
  for (tensor_file_internal::Entry& entry : parser.parse()) {
    NamedTensor& tensor = entry.tensor;
    if (entry.bytes != tensor_file_internal::expected_bytes(tensor)) {
      throw TensorFileError("tensor '" + tensor.name + "': its shape and its bytes disagree");
    }
    const size_t offset = static_cast<size_t>(entry.offset);
    const size_t size = static_cast<size_t>(entry.bytes);
    if (offset > data.size() || size > data.size() - offset) {
      throw TensorFileError("tensor '" + tensor.name + "': the file is cut short (it needs " +
                            std::to_string(size) + " bytes at " + std::to_string(offset) + " of " +
                            std::to_string(data.size()) + ")");
    }
    tensor.bytes.resize(size);
    if (size != 0) std::memcpy(tensor.bytes.data(), data.data() + offset, size);
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

inline TensorFile read_tensor_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) {
    throw TensorFileError("cannot open " + path.string());
  }
  const std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw TensorFileError("cannot read " + path.string());
  try {
    return parse_tensor_file(content);
  } catch (const TensorFileError& error) {
    throw TensorFileError(path.string() + ": " + error.what());
  }
}

}  // namespace heddle::tutorials

#endif  // HEDDLE_TUTORIALS_COMMON_TENSOR_FILE_H_
