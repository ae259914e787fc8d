// Folders in which a language model lies: its ONNX file, files of weights beside it, and config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cli {

/// The ONNX file of a folder: model.onnx, the same in its subfolder onnx, or the only .onnx file
/// there. What is no folder is returned as it is. A User error for a folder with none or several.
std::string model_in(const std::string& path);

/// How many tokens of a sequence the model was made for, as config.json beside its file says
/// (max_position_embeddings or n_positions); 0 where nothing says so. A User error for a file that
/// is no JSON object.
int64_t most_positions(const std::string& model);

/// The tokens that end a sequence, as generation_config.json beside its file says or, where that does
/// not, config.json (eos_token_id, a number or a list), or the metadata of a GGUF file; empty where nothing says so. Errors as those
/// of most_positions.
std::vector<int64_t> end_tokens(const std::string& model);

}  // namespace heddle::cli
