#include "subjects/model_folder.h"

#include <filesystem>
#include <vector>

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

int64_t most_positions(const std::string& model) {
  // A folder named onnx lies in that of the configuration.
  const fs::path beside = fs::path(model).parent_path();
  std::vector<fs::path> places{beside / "config.json"};
  if (beside.filename() == "onnx") places.push_back(beside.parent_path() / "config.json");
  std::error_code none;
  for (const fs::path& file : places) {
    if (!fs::is_regular_file(file, none)) continue;
    const Json config = Json::parse(read_file(file.string()), file.string());
    if (!config.is_object())
      throw_user_error("'" + file.string() + "' is no JSON object", {},
                       "repair it, or take it away: it says how long sequences may be");
    for (const char* name : {"max_position_embeddings", "n_positions"}) {
      if (config.contains(name) && config.at(name).is_int()) return config.at(name).as_int();
    }
    return 0;
  }
  return 0;
}

}  // namespace heddle::cli
