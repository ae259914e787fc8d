// ONNX files where subjects are accepted: "PATH.onnx", or "PATH.onnx:batch=1,sequence=128".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/onnx/import.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// {"batch=1", "x:2=128"} as a map; a text of another form is a User error.
std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& texts);

bool is_model(const std::string& subject);
/// Imports it, with `dtype` (f32, f16 or bf16) in place of f32.
OnnxModel import_subject(const std::string& subject, DataType dtype);
/// The same as a subject: constants are inputs, too.
Problem model_problem(const std::string& subject, DataType dtype);

}  // namespace heddle::cli
