// ONNX files where subjects are accepted: "PATH.onnx", "PATH.onnx:batch=1,sequence=128", or over a
// range of sizes "PATH.onnx:batch=1,sequence=1..128".
#pragma once

#include <string>
#include <vector>

#include "heddle/onnx/import.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// Sets the dimensions that {"batch=1", "x:2=128"} names, and the ranges of {"seq=1..128"} or, of
/// multiples of 8, {"seq=8..128/8"}. A text of another form is a User error.
void set_dims(OnnxOptions& options, const std::vector<std::string>& texts);

bool is_model(const std::string& subject);
/// The subject with `dims`, in the form of set_dims, behind those that it names. A User error for
/// `dims` of a subject that is no model.
std::string with_dims(const std::string& subject, const std::vector<std::string>& dims);
/// Imports it, with `dtype` (f32, f16 or bf16) in place of f32.
OnnxModel import_subject(const std::string& subject, DataType dtype);
/// The same as a subject: constants are inputs, too.
Problem model_problem(const std::string& subject, DataType dtype);

}  // namespace heddle::cli
