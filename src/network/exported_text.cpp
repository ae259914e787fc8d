// Generates the C file of an exported network for a CPU: its tables and the functions around them.
#include <algorithm>

#include "network/exported_text_parts.h"
#include "runtime/exported_network.h"

namespace heddle::network {
namespace {

constexpr const char* kSetThreads =
    "EXPORT void @name@_set_threads(int count) { heddle_network_set_threads(count); }\n";

}  // namespace

std::string tables_text(const ExportedPlan& plan) {
  std::string text = tensors_text(plan.interface);
  std::vector<std::string> declared;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const ExportedStep& step = plan.steps[s];
    if (std::find(declared.begin(), declared.end(), step.entry) == declared.end()) {
      text += "int " + step.entry + "(void* const* parameters);\n";
      declared.push_back(step.entry);
    }
    text += places_text("places" + std::to_string(s), step.places);
  }
  text += "static const heddle_step steps[] = {\n";
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    text += "  {" + c_string(plan.steps[s].name) + ", " + plan.steps[s].entry + ", " +
            std::to_string(plan.steps[s].places.size()) + ", places" + std::to_string(s) + "},\n";
  }
  text += "  {0, 0, 0, 0}};\nstatic const char* const features[] = {";
  for (const std::string& feature : plan.features) text += c_string(feature) + ", ";
  const ExportedInterface& i = plan.interface;
  text += "0};\nstatic const heddle_network_tables tables = {" + std::to_string(kExportedVersion) +
          ", " + c_string(i.name) + ", " + c_string(i.target) + ", " +
          std::to_string(plan.features.size()) + ", features, " + std::to_string(i.inputs.size()) +
          ", " + std::to_string(i.outputs.size()) + ", tensors, " +
          std::to_string(plan.steps.size()) + ", steps, " + std::to_string(i.arena_bytes) + ", " +
          std::to_string(i.weights_bytes) + ", " + std::to_string(i.weights_hash) + "u};\n";
  return text + functions_text(i, "heddle_network") + with_name(kSetThreads, i.name);
}

}  // namespace heddle::network
