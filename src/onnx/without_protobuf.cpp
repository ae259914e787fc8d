// The importer in a build without protobuf and ONNX's schema: its functions throw.
#include "heddle/onnx/import.h"
#include "heddle/support/error.h"

namespace heddle {

bool onnx_available() { return false; }

OnnxModel import_onnx(const std::string& path, const OnnxOptions&, Where where) {
  throw_user_error("'" + path + "' cannot be read: this build of Heddle has no ONNX import", where,
                   "install libprotobuf-dev, protobuf-compiler and libonnx-dev, and build again");
}

OnnxOptions decoder_options(const std::string& path, const DecoderSizes&, Where where) {
  (void)import_onnx(path, {}, where);
  return {};
}

std::vector<OnnxOperator> onnx_operators() { return {}; }

}  // namespace heddle
