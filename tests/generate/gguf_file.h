// GGUF files written field by field, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::testing {

template <class T>
std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string gguf_text(const std::string& text) {
  return raw_bytes<uint64_t>(text.size()) + text;
}

struct GgufPart {
  std::string name;
  std::vector<uint64_t> extents;  ///< innermost first, as the format has them
  uint32_t type;
  std::string bytes;
};

/// An entry of the metadata: its name, its type as the format numbers it, and its bytes.
struct GgufEntry {
  std::string name;
  uint32_t type;
  std::string bytes;
};
inline GgufEntry gguf_number(const std::string& name, uint32_t value) {
  return {name, 4, raw_bytes(value)};
}
inline GgufEntry gguf_float(const std::string& name, float value) {
  return {name, 6, raw_bytes(value)};
}
inline GgufEntry gguf_string(const std::string& name, const std::string& value) {
  return {name, 8, gguf_text(value)};
}
inline std::vector<GgufEntry> toy_entries() {
  return {gguf_string("general.architecture", "toy"),
          gguf_number("toy.block_count", 2),
          gguf_float("toy.scale", 0.5f),
          {"tokenizer.tokens", 9,
           raw_bytes<uint32_t>(8) + raw_bytes<uint64_t>(2) + gguf_text("a") + gguf_text("bc")}};
}

/// The file, with some metadata before the tensors.
inline std::string gguf_bytes(const std::vector<GgufPart>& parts, uint32_t version = 3,
                              const std::vector<GgufEntry>& entries = toy_entries()) {
  constexpr size_t kAlignment = 32;
  std::string head = "GGUF" + raw_bytes(version) + raw_bytes<uint64_t>(parts.size()) +
                     raw_bytes<uint64_t>(entries.size());
  for (const GgufEntry& e : entries) head += gguf_text(e.name) + raw_bytes(e.type) + e.bytes;
  std::string data;
  for (const GgufPart& p : parts) {
    data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment);
    head += gguf_text(p.name) + raw_bytes<uint32_t>(static_cast<uint32_t>(p.extents.size()));
    for (const uint64_t n : p.extents) head += raw_bytes(n);
    head += raw_bytes(p.type) + raw_bytes<uint64_t>(data.size());
    data += p.bytes;
  }
  head.resize((head.size() + kAlignment - 1) / kAlignment * kAlignment);
  return head + data;
}

}  // namespace heddle::testing
