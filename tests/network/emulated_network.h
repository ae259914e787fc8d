// Teaches a fake GPU the kernels of a network.
#pragma once

#include <string>

#include "driver/program_args.h"
#include "emulated_kernels.h"
#include "network/cut/horizontal.h"
#include "network/cut/scattered_update.h"
#include "network/cut/sizes/family_tasks.h"
#include "network/cut/task_schedules.h"

namespace heddle::testing {

/// The kernels of all tasks, and of those that share launches. Returns the number of kernels that
/// prepare constants.
inline size_t emulate_network(cuda::FakeDriver& driver, const Network& network,
                              const Target& target) {
  size_t prepared = 0;
  const auto add = [&](const GpuProgram& program) {
    prepared += program.prepare.size();
    emulate_kernels(driver, program);
  };
  const auto variants =
      network::with_places(network, network::task_variants(network, network.static_schedules()));
  for (size_t t = 0; t < variants.size(); ++t) {
    for (size_t v = 0; v < variants[t].schedules.size(); ++v) {
      const Schedule& s = variants[t].schedules[v];
      const std::string name = "network_task" + std::to_string(t + v);
      add(driver::lower_for_gpu(s, network::task_args(s), {.name = name}));
    }
  }
  const network::NetworkSteps steps(network, target, variants);
  for (size_t k = 0; k < steps.joined_kernels(); ++k) add(steps.program(k).program);
  return prepared;
}

}  // namespace heddle::testing
