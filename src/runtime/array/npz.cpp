// Files of NumPy's format .npz: a zip archive of .npy files. The directory at the end says where
// each lies. PKWARE's APPNOTE.TXT describes the records, whose numbers are little-endian.
#include "heddle/runtime/npz.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "heddle/support/error.h"
#include "runtime/array/npy.h"
#include "support/files/file.h"

namespace heddle {
namespace {

constexpr uint32_t kEndOfDirectory = 0x06054b50, kDirectoryEntry = 0x02014b50,
                   kLocalHeader = 0x04034b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30, kMostComment = 65535;
constexpr uint32_t kInZip64 = 0xffffffff;  ///< a number that a record of 64 bits has

/// CRC-32 of ISO 3309, which zip archives have of the contents of files.
uint32_t crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0xedb88320U : 0);
    }
    return t;
  }();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 255] ^ crc >> 8;
  return ~crc;
}

class Archive {
 public:
  Archive(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  std::map<std::string, NDArray> arrays() const {
    const size_t end = end_of_directory();
    const uint32_t entries = number(end + 10, 2);
    size_t at = number(end + 16, 4);
    std::map<std::string, NDArray> result;
    for (uint32_t i = 0; i < entries; ++i) {
      if (at > end || end - at < kEntryBytes || number(at, 4) != kDirectoryEntry)
        bad("its directory is damaged");
      const std::string_view name = part(at + kEntryBytes, number(at + 28, 2));
      add(at, std::string(name), result);
      at += kEntryBytes + name.size() + number(at + 30, 2) + number(at + 32, 2);
    }
    if (result.empty()) bad("there is no array in it");
    return result;
  }

 private:
  [[noreturn]] void bad(const std::string& what,
                        const std::string& help = "np.savez writes such files") const {
    throw_user_error("'" + path_ + "' is no .npz file that can be read: " + what, {}, help);
  }

  uint32_t number(size_t at, size_t width) const {
    uint32_t value = 0;
    for (size_t i = width; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(part(at, width)[i]);
    return value;
  }

  std::string_view part(size_t at, size_t length) const {
    if (at > bytes_.size() || length > bytes_.size() - at) bad("it ends too early");
    return bytes_.substr(at, length);
  }

  /// A comment of any bytes may follow the record.
  size_t end_of_directory() const {
    const size_t least = bytes_.size() - std::min(bytes_.size(), kEndBytes + kMostComment);
    for (size_t at = bytes_.size() - std::min(bytes_.size(), kEndBytes); bytes_.size() >= kEndBytes;
         --at) {
      if (number(at, 4) == kEndOfDirectory) return at;
      if (at == least) break;
    }
    bad("it is no zip archive, or it was not written to its end");
  }

  /// Adds the array of the directory's entry at `at`.
  void add(size_t at, const std::string& name, std::map<std::string, NDArray>& result) const {
    const uint32_t stored = number(at + 20, 4), size = number(at + 24, 4),
                   begin = number(at + 42, 4);
    if (stored == kInZip64 || size == kInZip64 || begin == kInZip64)
      bad("it has 4 GiB or more", "take fewer samples");
    if (number(at + 10, 2) != 0 || stored != size)
      bad("'" + name + "' is compressed", "write it by np.savez, not by np.savez_compressed");
    if (number(begin, 4) != kLocalHeader) bad("its directory is damaged");
    const std::string_view file =
        part(begin + kLocalBytes + number(begin + 26, 2) + number(begin + 28, 2), size);
    if (crc32(file) != number(at + 16, 4)) bad("the contents of '" + name + "' are damaged");
    constexpr std::string_view kEnding = ".npy";
    const bool is_array = name.size() > kEnding.size() && name.ends_with(kEnding);
    if (!is_array) bad("'" + name + "' in it is no array");
    const std::string array = name.substr(0, name.size() - kEnding.size());
    if (!result.emplace(array, internal::read_npy(file, path_ + ":" + array)).second)
      bad("it has '" + array + "' twice");
  }

  const std::string& path_;
  std::string_view bytes_;
};

void put(std::string& to, uint64_t value, int width) {
  for (int i = 0; i < width; ++i, value >>= 8) to += static_cast<char>(value & 255);
}

/// What the record before a file and the entry of the directory have in common.
std::string common_fields(std::string_view name, std::string_view file) {
  std::string out;
  put(out, 20, 2);  // the version that reads it
  put(out, 0, 8);   // no flags, stored as it is, no time
  put(out, crc32(file), 4);
  put(out, file.size(), 4);
  put(out, file.size(), 4);
  put(out, name.size(), 2);
  put(out, 0, 2);  // no more fields
  return out;
}

}  // namespace

void save_npz(const std::string& path, const std::map<std::string, NDArray>& arrays) {
  if (arrays.empty()) throw_user_error("there is no array to write to '" + path + "'");
  std::string content, directory;
  for (const auto& [array_name, array] : arrays) {
    const std::string name = array_name + ".npy", file = internal::write_npy(array);
    const std::string fields = common_fields(name, file);
    put(directory, kDirectoryEntry, 4);
    put(directory, 20, 2);
    directory += fields;
    put(directory, 0, 10);  // no comment, one disk, no attributes
    put(directory, content.size(), 4);
    directory += name;
    put(content, kLocalHeader, 4);
    content += fields + name + file;
  }
  const std::size_t begin = content.size();
  content += directory;
  put(content, kEndOfDirectory, 4);
  put(content, 0, 4);
  put(content, arrays.size(), 2);
  put(content, arrays.size(), 2);
  put(content, directory.size(), 4);
  put(content, begin, 4);
  put(content, 0, 2);
  if (content.size() >= kInZip64 || arrays.size() > 65535)
    throw_user_error("the arrays of '" + path + "' together have 4 GiB or more", {},
                     "write several files");
  write_file_atomic(path, content);
}

std::map<std::string, NDArray> load_npz(const std::string& path) {
  const std::string bytes = read_file(path);
  return Archive(path, bytes).arrays();
}

}  // namespace heddle
