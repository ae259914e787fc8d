// Protobuf messages as bytes on the wire: written field by field, and taken apart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::onnx {

/// A message that is written. Fields appear in the order of the calls.
class Message {
 public:
  Message& number(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  Message& real(int field, float value) {
    tag(field, 5);
    bytes_.append(reinterpret_cast<const char*>(&value), 4);
    return *this;
  }
  /// A field as it lies in another message, with its tag.
  Message& whole(std::string_view field) {
    bytes_ += field;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int kind) { varint(static_cast<uint64_t>(field << 3 | kind)); }
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

/// Receives the number of a field, its content where that is delimited by a length, and the field
/// with its tag.
using FieldVisitor = std::function<void(int number, std::optional<std::string_view> payload,
                                        std::string_view whole)>;

/// Calls `field` for each field of an encoded message. Returns false where the bytes are not a
/// message.
bool for_each_field(std::string_view message, const FieldVisitor& field);

}  // namespace heddle::onnx
