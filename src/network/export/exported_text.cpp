// Generates the C file of an exported network for a CPU: its tables and the functions around them.
#include <algorithm>

#include "network/export/exported_text_parts.h"
#include "runtime/exported/network.h"

namespace heddle::network {
namespace {

constexpr const char* kSetThreads =
    "EXPORT int @name@_set_threads(int count) { return heddle_network_set_threads(count); }\n";

/// The functions of a step, and the questions that name one of them. `s`: the number of the step.
std::string step_text(const ExportedStep& step, const std::string& s) {
  std::string text, variants = "static const heddle_variant variants" + s + "[] = {";
  for (size_t v = 0; v < step.variants.size(); ++v) {
    const std::string places = "places" + s + "_" + std::to_string(v);
    text += places_text(places, step.variants[v].places);
    variants += "{" + step.variants[v].entry + ", " +
                std::to_string(step.variants[v].places.size()) + ", " + places + "}, ";
  }
  return text + variants + "{0, 0, 0}};\n" + questions_text("questions" + s, step.tree);
}

/// The call, which takes sizes only where the network has some.
std::string run_text(const ExportedInterface& i) {
  std::string text = "EXPORT int @name@_run(void* network, " + size_parameters(i.sizes) +
                     "const void* const* inputs, void* const* outputs) {\n" + given_text(i.sizes) +
                     "  return heddle_network_run(network, given, inputs, outputs);\n}\n";
  return with_name(std::move(text), i.name) + size_functions_text(i);
}

}  // namespace

std::string tables_text(const ExportedPlan& plan) {
  std::string text = tensors_text(plan.interface);
  std::vector<std::string> declared;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const ExportedVariant& v : plan.steps[s].variants) {
      if (std::find(declared.begin(), declared.end(), v.entry) != declared.end()) continue;
      text += "int " + v.entry + "(void* const* parameters);\n";
      declared.push_back(v.entry);
    }
    text += step_text(plan.steps[s], std::to_string(s));
  }
  text += "static const heddle_step steps[] = {\n";
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const std::string number = std::to_string(s);
    text += "  {" + c_string(plan.steps[s].name) + ", " +
            std::to_string(plan.steps[s].variants.size()) + ", variants" + number + ", questions" +
            number + "},\n";
  }
  text += "  {0, 0, 0, 0}};\n" + sizes_text(plan.interface.sizes) +
          "static const char* const features[] = {";
  for (const std::string& feature : plan.features) text += c_string(feature) + ", ";
  const ExportedInterface& i = plan.interface;
  text += "0};\nstatic const heddle_network_tables tables = {" + std::to_string(kExportedVersion) +
          ", " + c_string(i.name) + ", " + c_string(i.target) + ", " +
          std::to_string(plan.features.size()) + ", features, " + std::to_string(i.inputs.size()) +
          ", " + std::to_string(i.outputs.size()) + ", tensors, " + std::to_string(i.sizes.size()) +
          ", sizes, " + std::to_string(plan.steps.size()) + ", steps, " +
          std::to_string(i.arena_bytes) + ", " + std::to_string(i.weights_bytes) + ", " +
          std::to_string(i.weights_hash) + "u, " + (i.check_weights ? "1" : "0") + "};\n";
  return text + functions_text(i, "heddle_network") + run_text(i) + with_name(kSetThreads, i.name);
}

}  // namespace heddle::network
