#include "subjects/model_folder.h"

#include <filesystem>
#include <vector>

#include "heddle/generate/gguf.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "support/files/file.h"

namespace heddle::cli {

namespace fs = std::filesystem;

std::string model_in(const std::string& path) {
  std::error_code none;
  const fs::path folder(path);
  if (!fs::is_directory(folder, none)) return path;
  for (const fs::path& each : {folder / "model.onnx", folder / "onnx" / "model.onnx"}) {
    if (fs::is_regular_file(each, none)) return each.string();
  }
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".onnx") found.push_back(entry.path().string());
  }
  if (found.size() == 1) return found[0];
  throw_user_error("the folder '" + path + "' has " + std::to_string(found.size()) +
                       " ONNX files, and none is model.onnx",
                   {}, "name the file");
}

namespace {

/// A configuration beside the file of a model, or beside its folder; empty where there is none.
Json config_of(const std::string& model, const char* name) {
  // A folder named onnx lies in that of the configuration.
  const fs::path beside = fs::path(model).parent_path();
  std::vector<fs::path> places{beside / name};
  if (beside.filename() == "onnx") places.push_back(beside.parent_path() / name);
  std::error_code none;
  for (const fs::path& file : places) {
    if (!fs::is_regular_file(file, none)) continue;
    Json config = Json::parse(read_file(file.string()), file.string());
    if (!config.is_object())
      throw_user_error(
          "'" + file.string() + "' is no JSON object", {},
          "repair it, or take it away: it says how long sequences may be and what ends them");
    return config;
  }
  return Json::object();
}

}  // namespace

int64_t most_positions(const std::string& model) {
  if (is_gguf(model)) return 0;  // gguf_decoder() compares the capacity with the file's
  const Json config = config_of(model, "config.json");
  for (const char* name : {"max_position_embeddings", "n_positions"}) {
    if (config.contains(name) && config.at(name).is_int()) return config.at(name).as_int();
  }
  return 0;
}

std::vector<int64_t> end_tokens(const std::string& model) {
  if (is_gguf(model)) {
    const GgufFile file(model);
    const Json* end = file.metadata().find("tokenizer.ggml.eos_token_id");
    return end && end->is_int() ? std::vector<int64_t>{end->as_int()} : std::vector<int64_t>();
  }
  Json config = config_of(model, "generation_config.json");
  if (!config.contains("eos_token_id")) config = config_of(model, "config.json");
  if (!config.contains("eos_token_id")) return {};
  const Json& given = config.at("eos_token_id");
  if (given.is_int()) return {given.as_int()};
  std::vector<int64_t> tokens;
  for (size_t i = 0; given.is_array() && i < given.size(); ++i) {
    if (given.at(i).is_int()) tokens.push_back(given.at(i).as_int());
  }
  return tokens;
}

}  // namespace heddle::cli
