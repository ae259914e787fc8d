// Quantising in a build without protobuf and ONNX's schema, which cannot read models.
#include "heddle/quantize/quantize.h"

namespace heddle {

QuantizeReport quantize_onnx(const std::string& path, const std::map<std::string, NDArray>&,
                             const std::string&, const QuantizeOptions&, Where where) {
  throw_user_error("'" + path + "' cannot be read: this build of Heddle has no ONNX import", where,
                   "install libprotobuf-dev, protobuf-compiler and libonnx-dev, and build again");
}

}  // namespace heddle
