// Networks for a GPU that export_network wrote.
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/support/error.h"
#include "runtime/cuda/state.h"
#include "runtime/exported/errors.h"
#include "runtime/exported/network.h"
#include "runtime/exported/weights.h"
#include "runtime/kernel/check_arguments.h"
#include "runtime/program/program.h"

namespace heddle {
namespace {

const Device kGpu = Device::cuda();

/// A kernel that takes `sizes` sizes.
Kernel kernel_of(const ExportedKernel& k, const heddle_code& code, size_t sizes) {
  auto program = std::make_shared<cuda::Program>(*k.gpu);
  program->cubin.assign(reinterpret_cast<const char*>(code.begin),
                        reinterpret_cast<const char*>(code.end));
  KernelCode made;
  made.name = k.name;
  made.args.resize(static_cast<size_t>(k.args));
  for (const int c : k.constants) made.args[static_cast<size_t>(c)].constant = true;
  for (const int64_t bytes : k.prepared_bytes)
    made.persistent.push_back({.name = "", .dtype = u8, .shape = {bytes}});
  made.sizes.resize(sizes);
  made.cuda = std::move(program);
  return Kernel(std::move(made));
}

/// Whether code for `arch` runs on the device. "sm_90a" runs on that architecture only, "sm_86"
/// also on later ones of the same generation.
bool runs_on(const std::string& arch, const cuda::DeviceInfo& device) {
  char* suffix = nullptr;
  const long number = arch.size() > 3 ? std::strtol(arch.c_str() + 3, &suffix, 10) : 0;
  const bool exact = suffix != nullptr && *suffix != '\0';
  const long major = number / 10, minor = number % 10;
  return device.major == major && (exact ? device.minor == minor : device.minor >= minor);
}

/// The first GPU, or a Runtime error that says what the machine lacks.
void check_device(const ExportedProgram& p) {
  const auto refuse = [&](const std::string& why, const std::string& help) {
    throw_runtime_error("'" + p.name + "' was compiled for '" + p.target + "': " + why, {}, help);
  };
  const cuda::DeviceState* device = nullptr;
  try {
    device = &cuda::device_state(kGpu.index);
  } catch (const Error& error) {
    refuse(error.message,
           "it needs an NVIDIA GPU and its driver, libcuda.so.1 or what HEDDLE_LIBCUDA names");
  }
  for (const ExportedKernel& k : p.kernels) {
    const std::string& arch = k.gpu->arch;
    if (k.gpu->launches.empty() || runs_on(arch, device->info)) continue;
    refuse("its code is for " + arch + ", and this GPU (" + device->info.name + ") is sm_" +
               std::to_string(10 * device->info.major + device->info.minor),
           "export it for this GPU");
  }
}

class GpuNetwork final : public heddle_network {
 public:
  GpuNetwork(ExportedProgram p, const heddle_code* code, const std::string& weights)
      : heddle_network(std::move(p)), mapped_(weights, program), calls_(parts_of(code)) {
    calls_.prepare();
  }

  void run(std::span<const int64_t> sizes, const void* const* inputs, void* const* outputs,
           Device device) override {
    std::vector<NDArray> given;
    for (const KernelArg& arg : program.args) {
      Extents shape = arg.shape;
      set_extents(shape, arg.symbolic, sizes);
      void* data = arg.output ? *outputs++ : const_cast<void*>(*inputs++);
      given.push_back(NDArray::wrap(data, std::move(shape), arg.dtype, device));
    }
    calls_.call(given);
  }

 private:
  /// A kernel with the numbers of the constants that it prepares. Steps that have both in common
  /// share what was prepared.
  using Key = std::pair<int, std::vector<int64_t>>;

  ProgramParts parts_of(const heddle_code* code) {
    using Calls = cuda::DeviceCalls;
    ProgramParts parts{.name = program.name, .args = program.args};
    for (const ExportedSize& s : program.sizes)
      parts.sizes.push_back({s.name, s.lo / s.multiple, s.hi / s.multiple});
    for (const ExportedArray& a : program.arrays)
      parts.arrays.push_back(NDArray::wrap(mapped_.at(a.at), {a.bytes}, u8));
    for (const ExportedStep& step : program.steps) {
      ProgramStep& made = parts.steps.emplace_back();
      made.selector = step.selector;
      for (const ExportedVariant& variant : step.variants)
        made.variants.push_back(variant_of(variant, code));
    }
    parts.arena_bytes = program.arena_bytes;
    parts.views = program.views;
    parts.turns = program.turns;
    parts.loops = program.loops;
    parts.updated = program.updated;
    parts.keeps_constants = false;
    parts.graphs = program.sizes.empty() ? Calls::kGraphs : Calls::kGraphsOfSizes;
    return parts;
  }

  ProgramVariant variant_of(const ExportedVariant& variant, const heddle_code* code) {
    ProgramVariant made;
    for (const ProgramPlace& p : variant.places) {
      if (p.where == ProgramPlace::Size) {
        made.sizes.push_back(static_cast<size_t>(p.at));
      } else if (p.where == ProgramPlace::Scratch) {
        made.scratch = p;
      } else {
        made.places.push_back(p);
      }
    }
    const ExportedKernel& kernel = program.kernels[static_cast<size_t>(variant.kernel)];
    Key key{variant.kernel, {}};
    for (const int c : kernel.constants)
      key.second.push_back(made.places[static_cast<size_t>(c)].at);
    Kernel& plain = kernels_[{variant.kernel, {}}];
    if (!plain) plain = kernel_of(kernel, code[variant.kernel], made.sizes.size());
    const auto [known, is_new] = kernels_.try_emplace(key, plain);
    if (is_new) known->second = plain.clone();
    made.kernel = known->second;
    return made;
  }

  const ExportedWeights mapped_;
  std::map<Key, Kernel> kernels_;
  Program calls_;
};

}  // namespace
}  // namespace heddle

extern "C" {

heddle_network* heddle_network_open_on_gpu(const heddle_library* library,
                                           const char* weights) HEDDLE_NOEXCEPT {
  return heddle::open_exported(
      library, weights, [&](heddle::ExportedProgram program, const std::string& path) {
        heddle::check_device(program);
        return std::make_shared<heddle::GpuNetwork>(std::move(program), library->code, path);
      });
}

int heddle_network_run_on_gpu(heddle_network* network, const int64_t* sizes,
                              const void* const* inputs, void* const* outputs,
                              void* stream) HEDDLE_NOEXCEPT {
  const bool done = heddle::succeeds([&] {
    const heddle::cuda::StreamScope scope(heddle::cuda::Stream::wrap(stream));
    heddle::run_exported(network, sizes, inputs, outputs, heddle::kGpu);
  });
  return done ? 0 : 1;
}
}
