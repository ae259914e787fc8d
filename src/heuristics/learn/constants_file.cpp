#include "heuristics/learn/constants_file.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "heddle/heuristics/constants.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "support/files/file.h"
#include "support/log.h"

namespace heddle::learning {
namespace {

const ConstantInfo* find_constant(const std::string& kind, const std::string& name) {
  const auto all = constants_of(kind);
  const auto at = std::ranges::find(all, name, &ConstantInfo::name);
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

Json moved_json(const MovedConstant& m) {
  return Json::object({{"name", m.name},
                       {"unit", m.unit},
                       {"from", m.from},
                       {"to", m.to},
                       {"problems", m.problems},
                       {"changed", m.changed},
                       {"gain", m.gain},
                       {"error", m.error}});
}

std::vector<MovedConstant> read_moved(const std::string& path, const std::string& kind) {
  std::vector<MovedConstant> moved;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return moved;
  const RuleConstants constants = read_constants(path, kind);
  const Json file = Json::parse(read_file(path), path);
  const Json* training = file.find("training");
  const Json* proofs =
      training != nullptr && training->is_object() ? training->find("moved") : nullptr;
  for (const ConstantInfo& info : constants_of(kind)) {
    MovedConstant m{.name = std::string(info.name),
                    .unit = std::string(info.unit),
                    .from = value_of(default_constants(), info),
                    .to = value_of(constants, info)};
    if (m.from == m.to) continue;
    if (proofs != nullptr && proofs->is_array()) {
      for (const Json& proof : proofs->elements()) {
        if (!proof.is_object() || proof.get_string("name", "") != m.name) continue;
        m.problems = static_cast<int>(proof.get_double("problems", 0));
        m.changed = static_cast<int>(proof.get_double("changed", 0));
        m.gain = proof.get_double("gain", 1);
        m.error = proof.get_double("error", 0);
      }
    }
    moved.push_back(std::move(m));
  }
  return moved;
}

void write_moved(const std::string& path, const std::string& kind,
                 const std::vector<MovedConstant>& moved, const std::string& date) {
  std::error_code error;
  if (moved.empty()) {
    std::filesystem::remove(path, error);
    return;
  }
  RuleConstants constants;
  Json proofs = Json::array();
  for (const MovedConstant& m : moved) {
    const ConstantInfo* info = find_constant(kind, m.name);
    HEDDLE_ICHECK(info != nullptr, "no constant is called " + m.name);
    set_value(&constants, *info, m.to);
    proofs.push_back(moved_json(m));
  }
  Json training = Json::object({{"date", date}, {"moved", std::move(proofs)}});
  write_file_atomic(path, constants_json(constants, kind, training).dump(1) + "\n");
}

std::vector<std::pair<const ConstantInfo*, double>> proven_elsewhere(const Target& target,
                                                                     const std::string& own) {
  namespace fs = std::filesystem;
  const std::string of_chip = target.kind + "-" + target.chip() + ".constants";
  std::set<std::pair<bool, std::string>> files;  // that of the chip first
  for (const std::string& folder : tophub_folders()) {
    std::error_code error;
    for (const fs::directory_entry& e : fs::directory_iterator(folder, error)) {
      const std::string name = e.path().filename().string();
      if (name.starts_with(target.kind + "-") && name.ends_with(".constants") &&
          !fs::equivalent(e.path(), own, error))
        files.emplace(name != of_chip, e.path().string());
    }
  }
  std::vector<std::pair<const ConstantInfo*, double>> out;
  for (const auto& [other, path] : files) {
    try {
      for (const MovedConstant& m : read_moved(path, target.kind)) {
        const ConstantInfo* info = find_constant(target.kind, m.name);
        const auto is_it = [&](const auto& known) { return known.first == info; };
        if (std::ranges::none_of(out, is_it)) out.emplace_back(info, m.to);
      }
    } catch (const Error& e) {
      HEDDLE_LOG_AT("heuristics", 1, e.message);
    }
  }
  return out;
}

}  // namespace heddle::learning
