#include "codegen/code_features.h"

#include <algorithm>

#include "codegen/llvm/jit/machine.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "runtime/machine/cpu_features.h"
#include "target/cpu_table.h"

namespace heddle::codegen {

std::vector<std::string> code_features(const Target& target) {
  std::vector<std::string> features = internal::features_of(target);
  const Machine machine = describe_machine(target, /*for_jit=*/false);
  if (!machine.x86) return features;
  const llvm::MCSubtargetInfo& subtarget = *thread_target_machine(machine, 1).getMCSubtargetInfo();
  for (const std::string_view name : internal::implied_features()) {
    if (std::find(features.begin(), features.end(), name) == features.end() &&
        subtarget.checkFeatures("+" + std::string(name)))
      features.emplace_back(name);
  }
  return features;
}

}  // namespace heddle::codegen
