#include "heddle/records/tophub.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>

#include "heddle/support/error.h"
#include "support/environment.h"
#include "support/files/this_library.h"
#include "support/log.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// Ranks of the sources of records: see RecordDatabase::add.
enum Rank : int { kShipped, kNamed, kOwn };

struct Source {
  std::string path;  ///< the path of a file
  int rank = kShipped;
};

/// Settings that the answer depends on and that may change while a process runs.
struct Settings {
  std::string tophub, log_file, option, learned;
  bool operator==(const Settings&) const = default;
};

std::vector<std::string> split_paths(const std::string& list) {
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) paths.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

bool is_off(const std::string& tophub) {
  const std::vector<std::string> items = split_paths(tophub);
  return std::find(items.begin(), items.end(), "off") != items.end();
}

std::string learned_folder_beside(const std::string& tophub) {
  std::string named = internal::environment_value("HEDDLE_LEARNED");
  if (named == "off") return "";
  if (!named.empty()) return named;
  if (is_off(tophub)) return "";
  const std::string data = internal::environment_value("XDG_DATA_HOME"),
                    home = internal::environment_value("HOME");
  if (!data.empty()) return data + "/heddle";
  return home.empty() ? "" : home + "/.local/share/heddle";
}

Settings current_settings(const std::string& own_log = "") {
  Settings s{internal::environment_value("HEDDLE_TOPHUB"),
             internal::environment_value("HEDDLE_LOG_FILE"), own_log, ""};
  s.learned = learned_folder_beside(s.tophub);
  return s;
}

/// The folder of shipped records, relative to the library, so that no path of the build machine is
/// compiled in. Empty where there is none.
fs::path shipped_folder() {
  const std::optional<fs::path> library = internal::this_library();
  if (!library) return {};
  // The first path is that of an installation. The second one is that of a build folder, where it
  // is a link to the source tree.
  for (const char* from_library : {HEDDLE_TOPHUB_FROM_LIB, "../share/heddle/tophub"}) {
    std::error_code error;
    const fs::path folder = fs::canonical(library->parent_path() / from_library, error);
    if (!error && fs::is_directory(folder, error)) return folder;
  }
  return {};
}

/// Adds `path` itself or, where it is a folder, the logs in it in the order of their names.
void add_sources(const fs::path& path, Rank rank, std::vector<Source>& out) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    out.push_back({path.string(), rank});
    return;
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  for (std::string& file : files) out.push_back({std::move(file), rank});
}

std::vector<Source> sources_of(const Settings& s) {
  std::vector<Source> sources;
  if (!is_off(s.tophub)) {
    if (const fs::path folder = shipped_folder(); !folder.empty()) {
      add_sources(folder, kShipped, sources);
    }
  }
  for (const std::string& path : split_paths(s.tophub)) {
    if (path != "off") add_sources(path, kNamed, sources);
  }
  const std::string& own = s.option.empty() ? s.log_file : s.option;
  if (own.empty()) return sources;
  std::error_code error;
  if (!fs::exists(own, error)) {
    if (!s.option.empty()) return sources;  // the program may write it later
    throw_user_error("HEDDLE_LOG_FILE names '" + own + "', and there is no such file", {},
                     "tuning makes one (`heddle tune SUBJECT --log " + own + "`); or unset it");
  }
  sources.push_back({own, kOwn});
  return sources;
}

/// The folders and files of HEDDLE_TOPHUB, the last one first, then that of what this machine has
/// learned, then the shipped folder.
std::vector<fs::path> folders_of(const Settings& s) {
  std::vector<fs::path> folders;
  for (const std::string& path : split_paths(s.tophub)) folders.insert(folders.begin(), path);
  if (!s.learned.empty()) folders.emplace_back(s.learned);
  if (!is_off(s.tophub)) folders.push_back(shipped_folder());
  return folders;
}

std::shared_ptr<const RecordDatabase> read_sources(const std::vector<Source>& sources) {
  auto database = std::make_shared<RecordDatabase>();
  for (const Source& source : sources) {
    try {
      for (const std::string& problem : database->add_file(source.path, source.rank)) {
        HEDDLE_LOG_AT("records", 1, problem);
      }
    } catch (const Error& e) {
      if (source.rank == kOwn)
        throw_user_error(e.message, {}, "it is named as the user's log of records");
      HEDDLE_LOG_AT("records", 1, e.message);
    }
  }
  return database;
}

struct Cache {
  std::mutex mutex;
  Settings settings;
  std::shared_ptr<const RecordDatabase> database;
  std::uint64_t generation = 0;
};
Cache& cache() {
  static Cache c;
  return c;
}

}  // namespace

std::vector<std::string> tophub_files(const std::string& own_log) {
  std::vector<std::string> files;
  for (const Source& source : sources_of(current_settings(own_log))) {
    std::error_code error;
    if (fs::exists(source.path, error)) files.push_back(source.path);
  }
  return files;
}

std::shared_ptr<const RecordDatabase> tophub(const std::string& own_log) {
  const Settings settings = current_settings(own_log);
  Cache& c = cache();
  const std::lock_guard lock(c.mutex);
  if (c.database == nullptr || !(c.settings == settings)) {
    c.database = read_sources(sources_of(settings));
    c.settings = settings;
  }
  return c.database;
}

void reload_tophub() {
  const std::lock_guard lock(cache().mutex);
  cache().database = nullptr;
  ++cache().generation;
}

std::string tophub_version() {
  const Settings settings = current_settings();
  const std::lock_guard lock(cache().mutex);
  return settings.tophub + "#" + settings.learned + "#" + std::to_string(cache().generation);
}

std::string learned_folder() { return current_settings().learned; }

std::vector<std::string> tophub_folders() {
  std::vector<std::string> folders;
  for (const fs::path& folder : folders_of(current_settings())) folders.push_back(folder.string());
  return folders;
}

bool tophub_is_off() { return is_off(current_settings().tophub); }

std::optional<std::string> tophub_model(const Target& target) {
  return tophub_file(target, ".model");
}

std::optional<std::string> tophub_nearest_model(const Target& target) {
  return tophub_nearest_file(target, ".model");
}

std::optional<std::string> tophub_nearest_file(const Target& target, const std::string& ending) {
  if (std::optional<std::string> own = tophub_file(target, ending)) return own;
  const std::string start = target.kind + "-";
  const std::string option = target.is_cuda() ? " -gpu=" : " -mcpu=";
  double least = std::numeric_limits<double>::infinity();
  std::optional<std::string> nearest;
  for (const fs::path& folder : folders_of(current_settings())) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string chip = entry.path().stem().string();
      if (entry.path().extension() != ending || !chip.starts_with(start)) continue;
      try {
        const Target of = Target::parse(target.kind + option + chip.substr(start.size()));
        const double distance = chip_distance(of, target);
        if (distance >= least) continue;
        least = distance;
        nearest = entry.path().string();
      } catch (const Error&) {
        // The name is not one of a chip that is known.
      }
    }
  }
  return nearest;
}

std::optional<std::string> tophub_file(const Target& target, const std::string& ending) {
  for (const fs::path& folder : folders_of(current_settings())) {
    const fs::path file = folder / (target.kind + "-" + target.chip() + ending);
    std::error_code error;
    if (fs::is_regular_file(file, error)) return file.string();
  }
  return std::nullopt;
}

}  // namespace heddle
