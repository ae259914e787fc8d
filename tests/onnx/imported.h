// Imports models of a test, and says why that failed.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "heddle/onnx/import.h"
#include "heddle/support/error.h"
#include "onnx/model_builder.h"

namespace heddle::testing {

inline OnnxModel imported(const ModelParts& parts, const OnnxOptions& options = {}) {
  const ModelFolder folder("imported");
  return import_onnx(folder.write("m.onnx", model_bytes(parts)), options);
}

/// The message of the User error of the import; "imported" where there is none.
inline std::string import_error(const ModelParts& parts) {
  try {
    imported(parts);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << e.message;
    return e.message;
  }
  return "imported";
}

}  // namespace heddle::testing
