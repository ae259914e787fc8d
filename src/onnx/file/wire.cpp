#include "onnx/file/wire.h"

#include <google/protobuf/io/coded_stream.h>

#include <climits>

namespace heddle::onnx {

using google::protobuf::io::CodedInputStream;

bool for_each_field(std::string_view message, const FieldVisitor& field) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  while (in.CurrentPosition() < static_cast<int>(message.size())) {
    const int begin = in.CurrentPosition();
    const uint32_t tag = in.ReadTag();
    std::optional<std::string_view> payload;
    uint32_t length = 0;
    uint64_t number = 0;
    bool ok = (tag >> 3) != 0;
    switch (tag & 7) {
      case 0: ok = ok && in.ReadVarint64(&number); break;
      case 1: ok = ok && in.Skip(8); break;
      case 2:
        ok = ok && in.ReadVarint32(&length) && length <= INT_MAX;
        if (ok) {
          const auto at = static_cast<size_t>(in.CurrentPosition());
          ok = length <= message.size() - at;
          if (ok) payload = message.substr(at, length);
          ok = ok && in.Skip(static_cast<int>(length));
        }
        break;
      case 5: ok = ok && in.Skip(4); break;
      default: ok = false;
    }
    if (!ok) return false;
    const auto at = static_cast<size_t>(begin);
    field(static_cast<int>(tag >> 3), payload,
          message.substr(at, static_cast<size_t>(in.CurrentPosition()) - at));
  }
  return true;
}

}  // namespace heddle::onnx
