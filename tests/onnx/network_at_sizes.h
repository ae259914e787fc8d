// Networks over ranges of sizes, compared with the interpreter at some of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/onnx/import.h"
#include "network/sizes_testing.h"
#include "onnx/ranges_testing.h"

namespace heddle::testing {

struct Imported {
  explicit Imported(const ModelParts& parts, const OnnxOptions& options)
      : folder("network_ranges") {
    model = import_onnx(folder.write("m.onnx", model_bytes(parts)), options);
  }
  ModelFolder folder;
  OnnxModel model;
};

}  // namespace heddle::testing
