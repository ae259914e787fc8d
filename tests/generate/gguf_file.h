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

/// The file, with some metadata before the tensors.
inline std::string gguf_bytes(const std::vector<GgufPart>& parts, uint32_t version = 3) {
  constexpr size_t kAlignment = 32;
  std::string head =
      "GGUF" + raw_bytes(version) + raw_bytes<uint64_t>(parts.size()) + raw_bytes<uint64_t>(4);
  head += gguf_text("general.architecture") + raw_bytes<uint32_t>(8) + gguf_text("toy");
  head += gguf_text("toy.block_count") + raw_bytes<uint32_t>(4) + raw_bytes<uint32_t>(2);
  head += gguf_text("toy.scale") + raw_bytes<uint32_t>(6) + raw_bytes(0.5f);
  head += gguf_text("tokenizer.tokens") + raw_bytes<uint32_t>(9) + raw_bytes<uint32_t>(8) +
          raw_bytes<uint64_t>(2) + gguf_text("a") + gguf_text("bc");
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
