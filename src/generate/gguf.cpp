// Reads the head of a GGUF file: its metadata and the list of its tensors. Every length is compared
// with what is left of the file before anything of that length is made.
#include "heddle/generate/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "generate/gguf_blocks.h"
#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle {
namespace {

/// Types of metadata, as the format numbers them.
enum class ValueType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};

class HeadReader {
 public:
  explicit HeadReader(const std::string& path) : path_(path), in_(path, std::ios::binary) {
    in_.seekg(0, std::ios::end);
    const auto end = in_.tellg();
    in_.seekg(0);
    if (!in_ || end < 0) throw_runtime_error("'" + path + "' cannot be read");
    size_ = static_cast<uint64_t>(end);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_user_error("'" + path_ + "' is no GGUF file that can be read: " + what, {},
                     "load it again, or convert it: " + generate::names_of_forms() + " are read");
  }
  uint64_t left() const { return size_ - at_; }
  uint64_t size() const { return size_; }
  uint64_t at() const { return at_; }

  void read(void* to, uint64_t bytes, const char* what) {
    if (bytes > left()) fail("it ends within " + std::string(what));
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (!in_) throw_runtime_error("'" + path_ + "' cannot be read");
    at_ += bytes;
  }
  template <class T>
  T number(const char* what) {
    T value;
    read(&value, sizeof value, what);
    return value;
  }
  std::string text(const char* what) {
    const auto bytes = number<uint64_t>(what);
    if (bytes > left())
      fail("a text of " + std::to_string(bytes) + " bytes in " + what + " is longer than the file");
    std::string value(static_cast<size_t>(bytes), '\0');
    read(value.data(), bytes, what);
    return value;
  }
  /// How many entries follow, each of at least `least` bytes.
  uint64_t count(uint64_t least, const char* what) {
    const auto n = number<uint64_t>(what);
    if (n > left() / least)
      fail(std::to_string(n) + " entries of " + what + " are more than the file has");
    return n;
  }
  void skip(uint64_t bytes, const char* what) {
    if (bytes > left()) fail("it ends within " + std::string(what));
    at_ += bytes;
    in_.seekg(static_cast<std::streamoff>(at_));
  }

 private:
  const std::string path_;
  std::ifstream in_;
  uint64_t size_ = 0, at_ = 0;
};

uint64_t bytes_of(ValueType type) {
  switch (type) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::Bool: return 1;
    case ValueType::U16:
    case ValueType::I16: return 2;
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::F32: return 4;
    case ValueType::U64:
    case ValueType::I64:
    case ValueType::F64: return 8;
    case ValueType::String:
    case ValueType::Array: return 0;
  }
  return 0;
}

ValueType value_type(HeadReader& in) {
  const auto type = in.number<uint32_t>("the metadata");
  if (type > static_cast<uint32_t>(ValueType::F64))
    in.fail("a value of its metadata has the type " + std::to_string(type));
  return static_cast<ValueType>(type);
}

void skip_list(HeadReader& in) {
  const ValueType type = value_type(in);
  if (type == ValueType::Array) in.fail("its metadata has lists of lists");
  const uint64_t each = bytes_of(type);
  const uint64_t n =
      in.count(std::max<uint64_t>(each, type == ValueType::String ? 8 : 1), "a list");
  if (type != ValueType::String) return in.skip(n * each, "a list");
  for (uint64_t i = 0; i < n; ++i) in.skip(in.number<uint64_t>("a list"), "a list");
}

/// A value; null for a list, which is skipped.
Json value_of(HeadReader& in) {
  constexpr const char* kWhat = "the metadata";
  switch (value_type(in)) {
    case ValueType::U8: return Json(in.number<uint8_t>(kWhat));
    case ValueType::I8: return Json(in.number<int8_t>(kWhat));
    case ValueType::U16: return Json(in.number<uint16_t>(kWhat));
    case ValueType::I16: return Json(in.number<int16_t>(kWhat));
    case ValueType::U32: return Json(in.number<uint32_t>(kWhat));
    case ValueType::I32: return Json(in.number<int32_t>(kWhat));
    case ValueType::F32: return Json(static_cast<double>(in.number<float>(kWhat)));
    case ValueType::Bool: return Json(in.number<uint8_t>(kWhat) != 0);
    case ValueType::String: return Json(in.text(kWhat));
    case ValueType::U64: {
      const auto value = in.number<uint64_t>(kWhat);
      return std::in_range<int64_t>(value) ? Json(value) : Json(static_cast<double>(value));
    }
    case ValueType::I64: return Json(in.number<int64_t>(kWhat));
    case ValueType::F64: return Json(in.number<double>(kWhat));
    case ValueType::Array: skip_list(in); return {};
  }
  return {};
}

/// The extents, and how many elements these are.
Extents shape_of(HeadReader& in, const std::string& name, uint64_t* elements) {
  constexpr uint32_t kMostDims = 4;
  const auto rank = in.number<uint32_t>("the list of tensors");
  if (rank < 1 || rank > kMostDims)
    in.fail("tensor '" + name + "' has " + std::to_string(rank) + " dimensions");
  Extents shape;
  *elements = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    const auto n = in.number<uint64_t>("the list of tensors");
    if (n < 1) in.fail("tensor '" + name + "' has no elements");
    // An element takes half a byte or more, so no tensor has more than twice the bytes of its file.
    if (n > 2 * in.size() / *elements) in.fail("tensor '" + name + "' is larger than the file");
    *elements *= n;
    shape.insert(shape.begin(), static_cast<int64_t>(n));
  }
  return shape;
}

GgufTensor tensor_of(HeadReader& in) {
  GgufTensor t;
  t.name = in.text("the list of tensors");
  uint64_t elements = 0;
  t.shape = shape_of(in, t.name, &elements);
  const auto type = in.number<uint32_t>("the list of tensors");
  const generate::BlockForm* form = generate::block_form(type);
  if (!form) in.fail("tensor '" + t.name + "' has the type " + std::to_string(type));
  t.type = static_cast<GgufType>(type);
  if (t.shape.back() % form->elements != 0)
    in.fail("the rows of tensor '" + t.name + "', of " + std::to_string(t.shape.back()) +
            ", are no whole blocks of " + std::to_string(form->elements));
  t.bytes = elements / static_cast<uint64_t>(form->elements) * static_cast<uint64_t>(form->bytes);
  t.begin = in.number<uint64_t>("the list of tensors");
  return t;
}

}  // namespace

GgufFile::GgufFile(const std::string& path) : path_(path), metadata_(Json::object()) {
  static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");
  constexpr uint64_t kLeastEntry = 13, kLeastTensor = 32;  // bytes
  HeadReader in(path);
  char magic[4];
  in.read(magic, sizeof magic, "the head");
  if (std::memcmp(magic, "GGUF", sizeof magic) != 0) in.fail("it does not begin with GGUF");
  const auto version = in.number<uint32_t>("the head");
  if (version != 2 && version != 3) in.fail("its version is " + std::to_string(version));
  const uint64_t tensors = in.count(1, "tensors"), entries = in.count(kLeastEntry, "metadata");
  for (uint64_t i = 0; i < entries; ++i) {
    const std::string key = in.text("the metadata");
    Json value = value_of(in);
    if (!value.is_null()) metadata_[key] = std::move(value);
  }
  if (tensors > in.left() / kLeastTensor)
    in.fail(std::to_string(tensors) + " tensors are more than the file has");
  std::set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    tensors_.push_back(tensor_of(in));
    if (!names.insert(tensors_.back().name).second)
      in.fail("tensor '" + tensors_.back().name + "' occurs twice");
  }
  constexpr int64_t kUsual = 32, kMost = 1 << 20;
  const Json* given = metadata_.find("general.alignment");
  if (given && !given->is_int()) in.fail("its alignment is " + given->dump());
  const int64_t alignment = given ? given->as_int() : kUsual;
  if (alignment < 1 || alignment > kMost || !std::has_single_bit(static_cast<uint64_t>(alignment)))
    in.fail("its alignment is " + std::to_string(alignment));
  const auto unit = static_cast<uint64_t>(alignment);
  const uint64_t data = (in.at() + unit - 1) / unit * unit;
  for (GgufTensor& t : tensors_) {
    if (data > in.size() || t.begin > in.size() - data || t.bytes > in.size() - data - t.begin)
      in.fail("tensor '" + t.name + "' lies behind the end of the file");
    t.begin += data;
  }
}

const GgufTensor& GgufFile::tensor(const std::string& name) const {
  std::vector<std::string> names;
  for (const GgufTensor& t : tensors_) {
    if (t.name == name) return t;
    names.push_back(t.name);
  }
  throw_user_error("'" + path_ + "' has no tensor '" + name + "'", {}, did_you_mean(name, names));
}

std::string GgufFile::bytes_of(const GgufTensor& t) const {
  std::ifstream in(path_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(t.begin));
  std::string bytes(static_cast<size_t>(t.bytes), '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw_runtime_error("'" + path_ + "': tensor '" + t.name + "' cannot be read");
  return bytes;
}

bool is_gguf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char magic[4] = {};
  in.read(magic, sizeof magic);
  return in && std::memcmp(magic, "GGUF", sizeof magic) == 0;
}

Tensor GgufFile::weights(const std::string& name) const {
  const GgufTensor& t = tensor(name);
  return generate::weights_of(t, bytes_of(t));
}

}  // namespace heddle
