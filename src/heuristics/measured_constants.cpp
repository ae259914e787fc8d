// The constants of rules: where they are found, and what they decide.
#include <optional>
#include <utility>

#include "heddle/heuristics/constants.h"
#include "heddle/records/tophub.h"
#include "heddle/schedule/meta_template.h"
#include "heuristics/tophub_files.h"
#include "heuristics/turned_off.h"
#include "measure/task/steps_hash.h"
#include "schedule/templates/graph_choice.h"
#include "support/files/file.h"

namespace heddle {

using namespace learning;
namespace {

std::optional<RuleConstants> constants_of_file(const Target& target) {
  const std::optional<std::string> own = tophub_file(target, ".constants");
  const std::optional<std::string> file = own ? own : file_of_any_chip(target.kind, ".constants");
  if (!file) return std::nullopt;
  RuleConstants constants = read_constants(*file, target.kind);
  constants.source = "constants " + target.kind + "-" + (own ? target.chip() : "any");
  return constants;
}

class RulesWith : public ChoiceSource {
 public:
  explicit RulesWith(RuleConstants constants) {
    constants.source = "given constants";
    constants_ = std::make_shared<const RuleConstants>(std::move(constants));
  }
  std::string version() const override {
    return "rules with " + moved_text(*constants_, "llvm") + "; " + moved_text(*constants_, "cuda");
  }
  ChoiceAnswer choose(const ChoiceQuestion&) const override { return {}; }
  std::shared_ptr<const RuleConstants> constants(const Target&) const override {
    return constants_;
  }

 private:
  std::shared_ptr<const RuleConstants> constants_;
};

}  // namespace

RuleConstants read_constants(const std::string& path, const std::string& kind) {
  return parse_constants(read_file(path), kind, path);
}

std::shared_ptr<const RuleConstants> measured_constants(const Target& target) {
  if (all_turned_off()) return nullptr;
  static TophubFiles<RuleConstants> files;
  return files.find(target, constants_of_file);
}

std::shared_ptr<const ChoiceSource> rules_with(const RuleConstants& constants) {
  return std::make_shared<RulesWith>(constants);
}

std::vector<DecidingConstant> deciding_constants(const ComputeDag& dag, const Target& target,
                                                 const AutoSchedulerOptions& options) {
  const auto found = measured_constants(target);
  const RuleConstants now = found && options.use_heuristics ? *found : default_constants();
  const auto choice = [&](const RuleConstants& constants) {
    const Schedule s =
        make_static_template_with(dag, target, options, rules_with(constants)).static_schedule();
    return s.dag().alternative() + " " + std::to_string(measuring::steps_hash(s));
  };
  const std::string usual = choice(now);
  std::vector<DecidingConstant> out;
  for (const ConstantInfo& info : constants_of(target.kind)) {
    const auto changes = [&](double value) {
      RuleConstants other = now;
      set_value(&other, info, value);
      return choice(other) != usual;
    };
    const DecidingConstant c{&info, value_of(now, info), changes(info.low), changes(info.high)};
    if (c.below || c.above) out.push_back(c);
  }
  return out;
}

}  // namespace heddle
