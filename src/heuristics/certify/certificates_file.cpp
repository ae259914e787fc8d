#include "heuristics/certify/certificates_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "heddle/heuristics/heuristic.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "heuristics/tophub_files.h"
#include "heuristics/trees/checked_json.h"
#include "support/files/file.h"

namespace heddle::learning {
namespace {

constexpr std::size_t kMostClasses = 1024;

std::optional<Certificates> nearest_certificates(const Target& target) {
  const std::optional<std::string> file = tophub_nearest_file(target, kCertificatesEnding);
  if (!file) return std::nullopt;
  Certificates c = read_certificates(*file, target.kind);
  const std::string chip = std::filesystem::path(*file).stem().string();
  c.source = "certificates " + chip;
  if (chip != target.kind + "-" + target.chip())
    c.source += ", the nearest of the chips that were measured to " + target.chip();
  return c;
}

}  // namespace

const ShareTree* Certificates::find(std::string_view heuristic) const {
  const Heuristic* h = find_heuristic(heuristic);
  if (h == nullptr) return nullptr;
  const std::vector<HeuristicFeature> features = h->all_features();
  const auto asks = [](const TrainedFeature& f) {
    return HeuristicFeature{f.name, f.kind, f.values};
  };
  for (const ShareTree& t : classes) {
    if (t.heuristic == heuristic && t.version == std::to_string(h->version) &&
        std::ranges::equal(t.features, features, {}, asks))
      return &t;
  }
  return nullptr;
}

Certificates read_certificates(const std::string& path, const std::string& kind) {
  try {
    const Json json = Json::parse(read_file(path), path);
    if (json.at("heddle_certificates").as_int() != 1)
      throw_user_error("this version reads format 1");
    Certificates c{.kind = json.at("kind").as_string()};
    if (c.kind != kind) throw_user_error("it is of kind '" + c.kind + "', not '" + kind + "'");
    c.target = json.get_string("target", "");
    c.date = json.get_string("date", "");
    c.file = path;
    for (const Json& t : list(json, "classes", 0, kMostClasses))
      c.classes.push_back(share_tree_from_json(t));
    return c;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    throw_user_error(path + ": these are no certificates: " + e.message, {},
                     "write the file anew with 'heddle learn', or remove it");
  }
}

void write_certificates(const std::string& path, const Certificates& certificates) {
  std::error_code error;
  if (certificates.classes.empty()) {
    std::filesystem::remove(path, error);
    return;
  }
  Json classes = Json::array();
  for (const ShareTree& t : certificates.classes) classes.push_back(to_json(t));
  const Json all = Json::object({{"heddle_certificates", 1},
                                 {"kind", certificates.kind},
                                 {"within", kCertifiedShare},
                                 {"target", certificates.target},
                                 {"date", certificates.date},
                                 {"classes", std::move(classes)}});
  write_file_atomic(path, all.dump() + "\n");
}

std::shared_ptr<const Certificates> find_certificates(const Target& target) {
  static TophubFiles<Certificates> files;
  return files.find(target, nearest_certificates);
}

CertificateCalibration certificates_of_file(const std::string& path, const std::string& kind) {
  CertificateCalibration out;
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return out;
  out.file = path;
  for (const ShareTree& t : read_certificates(path, kind).classes) {
    out.classes.push_back({t.heuristic, t.problems(), t.within(), t.held_out});
    add_bins(out.all, t.held_out);
  }
  return out;
}

}  // namespace heddle::learning
