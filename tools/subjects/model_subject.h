// ONNX files where subjects are accepted: "PATH.onnx", "PATH.onnx:batch=1,sequence=128", or over a
// range of sizes "PATH.onnx:batch=1,sequence=1..128".
#pragma once

#include <string>
#include <vector>

#include "heddle/onnx/import.h"
#include "subjects/subjects.h"

namespace heddle::cli {

bool is_model(const std::string& subject);
/// Whether the subject is a model of which some dimensions are ranges.
bool has_ranges(const std::string& subject);
/// The file of a model, without the dimensions behind it; empty for what is no model.
std::string model_path(const std::string& subject);
/// The subject with `dims`, such as "batch=1" or "seq=1..128", behind those that it names. A User
/// error for `dims` of a subject that is no model.
std::string with_dims(const std::string& subject, const std::vector<std::string>& dims);
/// The subject of the same model with states (OnnxOptions::states). A User error for no model.
std::string with_states(const std::string& subject);
/// Imports it, with `dtype` (f32, f16 or bf16) in place of f32. `batch`: as OnnxOptions::batch. A
/// User error where the file or a dimension is not there, and for a dimension in another form than
/// "x:2=128", "seq=1..128" or, for multiples of 8, "seq=8..128/8".
OnnxModel import_subject(const std::string& subject, DataType dtype, int64_t batch = 0);
/// The same with states. Where the subject names no dimensions, they are those that decoder_options
/// finds for these sizes.
OnnxModel import_decoder(const std::string& subject, DataType dtype, const DecoderSizes& sizes);
/// The same as a subject: constants are inputs, too.
Problem model_problem(const std::string& subject, DataType dtype);

}  // namespace heddle::cli
