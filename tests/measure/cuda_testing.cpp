#include "measure/cuda_testing.h"

#include "measure/test_worker.h"

namespace heddle::testing {
namespace {

measuring::WorkerHooks emulated(const std::string& argument) {
  const Json json = Json::parse(argument);
  EmulatedDevice::Faults faults;
  for (const auto& [steps, how] : json.at("faults").members())
    faults[steps] = static_cast<Misbehaves>(how.as_int());
  measuring::WorkerHooks hooks;
  hooks.device = [faults] { return std::make_unique<EmulatedDevice>(faults); };
  hooks.fault = [misfortune = json.at("misfortune").as_string()](
                    const std::string& phase, size_t candidate, std::span<const NDArray> outputs) {
    if (misfortune == "wrong output" && phase == "output" && candidate == 1) outputs[0].set(5, 1e6);
    if (misfortune == "no cpu reference" && phase == "cpu reference")
      throw_runtime_error("no reference today");
  };
  return hooks;
}

const TestWorker kEmulated("emulated", emulated);

}  // namespace

WorkerOptions emulated_options(const EmulatedDevice::Faults& faults, WorkerOptions options,
                               const std::string& misfortune) {
  Json list = Json::object();
  for (const auto& [steps, how] : faults) list[steps] = Json(static_cast<int>(how));
  options.workers = 2;
  options.command = test_worker(
      "emulated", Json::object({{"faults", std::move(list)}, {"misfortune", misfortune}}).dump());
  return options;
}

std::unique_ptr<Measurer> emulated_measurer(const EmulatedDevice::Faults& faults,
                                            WorkerOptions options, const std::string& misfortune) {
  return measuring::make_cuda_measurer_unchecked(
      emulated_options(faults, std::move(options), misfortune));
}

}  // namespace heddle::testing
