#include "common/model_kernels.h"

#include "common/run_sizes.h"
#include "heddle/support/error.h"

namespace heddle::cli {

std::vector<TaskKernels> model_kernels(const Request& options, const Problem& problem,
                                       const Network& network) {
  const bool race = options.race_seconds > 0;
  if (problem.dims.empty() && (race || !options.sizes.empty()))
    throw_user_error(
        "--race and --sizes are for a range of sizes, and '" + options.subject + "' has none", {},
        "give a dimension a range: net.onnx:batch=1..64");
  if (race) {
    KernelRaceOptions how;
    how.race_seconds = options.race_seconds;
    how.max_kernels = options.max_kernels;
    how.histogram = histogram_of(options.sizes, problem.dims);
    return choose_kernels(network, problem.dims, how);
  }
  if (!options.sizes.empty())
    throw_user_error("--sizes says at which sizes the kernels of a model race", {},
                     "give the race its seconds, with --race");
  std::vector<TaskKernels> known;
  if (!problem.dims.empty()) known = recorded_kernels(network, problem.dims);
  if (options.json && known.empty())
    throw_user_error("of a model only kernels over ranges of sizes that raced are shown as JSON",
                     {}, "race them with --race, or leave --json out");
  return known;
}

std::string kernels_text(const std::vector<TaskKernels>& kernels) {
  if (kernels.empty()) return "";
  return "\nkernels of a race, in place of those above:\n" + to_text(kernels);
}

Json kernels_json(const std::vector<TaskKernels>& kernels, const Problem& problem,
                  const Target& target) {
  return Json::object({{"subject", problem.subject},
                       {"dtype", to_string(problem.dtype)},
                       {"target", to_string(target)},
                       {"families", to_json(kernels)}});
}

}  // namespace heddle::cli
