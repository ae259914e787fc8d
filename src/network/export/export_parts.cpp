#include "network/export/export_parts.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "driver/build_cuda.h"
#include "driver/program_args.h"
#include "heddle/network/plan.h"
#include "heddle/records/record.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "network/cut/step_plan.h"
#include "support/hashing/hex.h"

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
      // A placeholder that is no constant is an argument, or the result of a node: of one that runs a
      // second time, or that writes a state.
      if (!t.op()->is_constant() || position_of(args, t) >= 0) continue;
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

/// Adds the size as an extent of the first argument that has it alone.
void add_size(const Var& size, const ExportRequest& request, LibrarySource& library) {
  for (size_t a = 0; a < request.args.size(); ++a) {
    const Tensor& t = request.args[a];
    for (size_t d = 0; d < t.shape().size(); ++d) {
      const std::optional<ScaledSize> s = as_scaled_size(t.shape()[d]);
      if (!s || !s->size.same_as(size)) continue;
      ExportedSize made{.name = size->name,
                        .lo = size->size->lo * s->factor,
                        .hi = size->size->hi * s->factor,
                        .multiple = s->factor};
      // A dimension of multiples of 8 is called "n/8".
      const std::string suffix = "/" + std::to_string(s->factor);
      const size_t at = made.name.rfind(suffix);
      if (at != std::string::npos && at + suffix.size() == made.name.size()) made.name.resize(at);
      library.program.sizes.push_back(std::move(made));
      library.extents.push_back("dimension " + std::to_string(d) + " of '" + request.arg_names[a] +
                                "'");
      return;
    }
  }
  throw_user_error("no argument of the network has the dimension '" + size->name +
                       "', so a call cannot give its size",
                   {}, "add an input with that dimension, or give it one size");
}

}  // namespace

ExportScratch::ExportScratch(const std::string& folder) {
  std::error_code error;
  std::string pattern =
      (std::filesystem::absolute(folder, error) / ".heddle-export-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr)
    throw_user_error("cannot write in the folder '" + folder + "': " + std::strerror(errno), {},
                     "name one that is there, or that can be made");
  path_ = pattern;
}

ExportScratch::~ExportScratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

PlacedSteps place_steps(const ExportRequest& request, const std::vector<NetworkNode>& nodes,
                        const std::vector<NetworkLoop>& loops,
                        const std::vector<int64_t>& scratch) {
  std::vector<Tensor> tensors = request.args;
  const std::vector<Tensor> constants = constants_of(request.network, request.args);
  tensors.insert(tensors.end(), constants.begin(), constants.end());
  const Network& net = request.network;
  StepPlan plan = plan_steps(nodes, tensors, request.args.size(), net.places(), net.states(),
                             net.sizes(), loops, net.updates().repeats, scratch);
  for (ProgramView& view : plan.views)
    view.argument = static_cast<size_t>(tensor_of(request.args, view.argument));
  PlacedSteps steps{std::move(plan.places),  {},
                    std::move(plan.scratch), plan.arena_bytes,
                    std::move(plan.views),   std::move(plan.turns),
                    std::move(plan.loops)};
  for (const TurnPlace& turn : steps.turns) {
    for (const ProgramPlace& p : {turn.even, turn.odd, turn.first, turn.last})
      HEDDLE_ICHECK(p.where == ProgramPlace::Arena || p.where == ProgramPlace::Nothing,
                    "what loops read and write lies between steps");
  }
  for (std::vector<ProgramPlace>& of_step : steps.places) {
    std::map<size_t, NDArray>& own = steps.constants.emplace_back();
    for (size_t i = 0; i < of_step.size(); ++i) {
      ProgramPlace& place = of_step[i];
      const auto at = static_cast<size_t>(place.at);
      if (place.where == ProgramPlace::Argument) place.at = tensor_of(request.args, at);
      if (place.where != ProgramPlace::Array) continue;
      own.emplace(i, *constants[at].op()->data());
      place = {};
    }
  }
  return steps;
}

LibrarySource interface_of(const ExportRequest& request) {
  LibrarySource library;
  ExportedProgram& p = library.program;
  p.name = request.name;
  p.target = to_string(request.target());
  p.check_weights = request.check_weights;
  library.for_gpu = request.target().is_cuda();
  const uint64_t model = ComputeDag(request.network.outputs()).structural_hash();
  library.version = "heddle " + internal::build_fingerprint() + ", model " + to_hex(model);
  if (request.by_plan) library.plan = to_text(*request.network.plan());
  const std::vector<Var>& sizes = request.network.sizes();
  for (const bool outputs : {false, true}) {
    for (size_t a = 0; a < request.args.size(); ++a) {
      const Tensor& t = request.args[a];
      if (is_output(t) != outputs) continue;
      KernelArg arg = driver::describe(t.buffer());
      arg.name = request.arg_names[a];
      arg.output = outputs;
      arg.alignment = library.for_gpu ? 16 : 0;
      arg.symbolic = driver::symbolic_extents(t.shape(), sizes);
      p.args.push_back(std::move(arg));
      int64_t bytes = t.dtype().bytes();
      for (const int64_t extent : largest_extents(t)) bytes *= extent;
      library.tensor_bytes.push_back(bytes);
    }
  }
  for (const StateUpdate& u : request.network.updates()) {
    const auto at = static_cast<size_t>(position_of(request.args, u.state));
    p.updated.push_back(static_cast<size_t>(tensor_of(request.args, at)));
  }
  for (const Var& size : sizes) add_size(size, request, library);
  return library;
}

}  // namespace heddle::network
