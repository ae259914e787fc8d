#include "network/export_parts.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "heddle/support/error.h"
#include "network/step_plan.h"
#include "runtime/exported_network.h"

namespace heddle::network {
namespace {

bool is_output(const Tensor& t) { return !t.op()->is_placeholder(); }

/// The position of argument `a` among the inputs, followed by the outputs.
int64_t tensor_of(const std::vector<Tensor>& args, size_t a) {
  const auto before = std::count_if(args.begin(), args.begin() + static_cast<long>(a), is_output);
  const auto inputs =
      std::count_if(args.begin(), args.end(), [](const Tensor& t) { return !is_output(t); });
  return is_output(args[a]) ? inputs + before : static_cast<int64_t>(a) - before;
}

std::vector<Tensor> constants_of(const Network& network, const std::vector<Tensor>& args) {
  std::vector<Tensor> constants;
  for (const NetworkNode& node : network.nodes()) {
    for (const Tensor& t : node.inputs) {
      if (is_output(t) || position_of(args, t) >= 0) continue;
      if (position_of(constants, t) < 0) constants.push_back(t);
    }
  }
  for (const Tensor& t : args) {
    if (!t.op()->is_constant()) continue;
    throw_user_error(
        "'" + t.name() + "' is a constant, and an exported network contains its constants",
        t.op()->where(), "declare it with constant(array), and leave it out of the arguments");
  }
  return constants;
}

}  // namespace

ExportScratch::ExportScratch(const std::string& folder) {
  std::string pattern = folder + "/.heddle-export-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    throw_runtime_error("cannot write in the folder '" + folder + "'");
  path_ = pattern;
}

ExportScratch::~ExportScratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

PlacedSteps place_steps(const ExportRequest& request) {
  std::vector<Tensor> tensors = request.args;
  const std::vector<Tensor> constants = constants_of(request.network, request.args);
  tensors.insert(tensors.end(), constants.begin(), constants.end());
  const StepPlan plan =
      plan_steps(request.network.nodes(), tensors, request.args.size(), request.network.places());
  PlacedSteps steps;
  steps.arena_bytes = plan.arena_bytes;
  for (const size_t count : plan.step_args)
    steps.places.emplace_back(count, ExportedPlace{HEDDLE_NOTHING, 0});
  for (const StepPlan::Binding& b : plan.bindings)
    steps.places[b.step][b.position] = {HEDDLE_ARGUMENT, tensor_of(request.args, b.array)};
  for (const StepPlan::Between& b : plan.between)
    steps.places[b.step][b.position] = {HEDDLE_ARENA, b.offset};
  steps.constants.resize(steps.places.size());
  for (const StepPlan::Binding& b : plan.bound)
    steps.constants[b.step].emplace(b.position, *constants[b.array].op()->data());
  return steps;
}

ExportedInterface interface_of(const ExportRequest& request) {
  ExportedInterface interface;
  interface.name = request.name;
  interface.target = to_string(request.target());
  for (const Tensor& t : request.args) {
    KernelArg arg{.name = t.name(), .dtype = t.dtype(), .shape = t.extents()};
    arg.output = is_output(t);
    (arg.output ? interface.outputs : interface.inputs).push_back(std::move(arg));
  }
  return interface;
}

}  // namespace heddle::network
