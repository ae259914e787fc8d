#include "heuristics/learn/learned_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "heuristics/asked_problems.h"
#include "heuristics/certify/certificates_file.h"
#include "heuristics/trees/tree_file.h"
#include "support/files/private_folder.h"

namespace heddle::learning {
namespace {

constexpr std::string_view kLogEnding = ".measured";
constexpr std::uint64_t kUsualSeed = 1;  // not in the names of logs

std::string folder_or_default(const std::string& folder) {
  std::string found = folder.empty() ? learned_folder() : folder;
  if (found.empty())
    throw_user_error(
        "there is no folder for what is learned", {},
        "set HEDDLE_LEARNED to a folder; HEDDLE_LEARNED=off and HEDDLE_TOPHUB=off turn "
        "the default one off");
  return found;
}

}  // namespace

LearnedFiles::LearnedFiles(const Target& target, const std::string& folder)
    : target_(target), folder_(folder_or_default(folder)) {}

void LearnedFiles::make_folder() const {
  if (const int why = internal::make_private_folders(folder_); why != 0)
    throw_runtime_error("the folder '" + folder_ + "' cannot be made: " + std::strerror(why), {},
                        "set HEDDLE_LEARNED to a folder that can be written");
}

std::string LearnedFiles::tree_of(const Heuristic& h) const {
  return folder_ + "/" + tree_file_name(target_.kind, target_.chip(), h.name);
}

std::string LearnedFiles::constants() const {
  return folder_ + "/" + target_.kind + "-" + target_.chip() + ".constants";
}

std::string LearnedFiles::certificates() const {
  return folder_ + "/" + target_.kind + "-" + target_.chip() + kCertificatesEnding;
}

std::string LearnedFiles::asked() const { return folder_ + "/" + asked_file_name(target_); }

std::string LearnedFiles::log_start(const Heuristic& h) const {
  return target_.kind + "-" + target_.chip() + "." + h.name + "-v" + std::to_string(h.version) +
         ".";
}

std::string LearnedFiles::log_of(const Heuristic& h, std::uint64_t seed) const {
  const std::string drawn = seed == kUsualSeed ? "" : ".seed" + std::to_string(seed);
  return folder_ + "/" + log_start(h) + std::to_string(target_.cores) + drawn +
         std::string(kLogEnding);
}

std::vector<std::string> LearnedFiles::logs_of_threads(const Heuristic& h) const {
  return logs_that_start(log_start(h) + std::to_string(target_.cores) + ".");
}

std::vector<std::string> LearnedFiles::logs_of(const Heuristic& h) const {
  return logs_that_start(log_start(h));
}

std::vector<std::string> LearnedFiles::set_aside(const Heuristic& h) const {
  std::vector<std::string> said;
  for (const std::string& log : logs_of(h)) {
    if (read_heuristic_log(log).features == h.all_features()) continue;
    const std::string aside = log + ".of_other_features";
    std::error_code error;
    std::filesystem::rename(log, aside, error);
    if (error)
      throw_runtime_error("'" + log + "' cannot be renamed: " + error.message(), {},
                          "remove it: its features are those of another version of Heddle");
    said.push_back("the log '" + log + "' has the features of another version of Heddle; it is '" +
                   aside + "' now, and does not count");
  }
  return said;
}

std::vector<std::string> LearnedFiles::logs_that_start(const std::string& start) const {
  std::vector<std::string> logs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start) && name.ends_with(kLogEnding))
      logs.push_back(entry.path().string());
  }
  std::ranges::sort(logs);
  return logs;
}

}  // namespace heddle::learning
