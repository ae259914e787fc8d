// TensorProto to NDArray: typed fields, raw bytes, and files beside the model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "onnx/file/mapped_file.h"

namespace heddle::onnx_file {
class TensorProto;
}

namespace heddle::onnx {

/// Reads the tensors of one model, and opens each file of external data once.
class TensorReader {
 public:
  TensorReader(std::string model_path, std::shared_ptr<const MappedFile> model)
      : model_path_(std::move(model_path)), model_(std::move(model)) {}

  /// `what` names the tensor in messages. `raw` are the bytes of its raw_data, a part of the
  /// model's file; empty where the message has them itself.
  NDArray read(const onnx_file::TensorProto& tensor, std::optional<std::string_view> raw,
               const std::string& what);

 private:
  struct External {
    std::shared_ptr<const MappedFile> file;
    std::string_view bytes;
  };
  /// The bytes of a tensor that are in another file; `bytes` is how many it needs.
  External find_external(const onnx_file::TensorProto& tensor, int64_t bytes,
                         const std::string& what);
  const std::shared_ptr<const MappedFile>& external_file(const std::string& location,
                                                         const std::string& what);

  std::string model_path_;
  std::shared_ptr<const MappedFile> model_;
  std::map<std::string, std::shared_ptr<const MappedFile>> external_;
};

}  // namespace heddle::onnx
