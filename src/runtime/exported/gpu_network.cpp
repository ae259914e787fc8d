// Networks for a GPU that export_network wrote.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "heddle/support/error.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/cuda/executable.h"
#include "runtime/cuda/state.h"
#include "runtime/exported/errors.h"
#include "runtime/exported/network.h"
#include "runtime/exported/weights.h"
#include "runtime/kernel/check_arguments.h"

namespace heddle {
namespace {

const Device kGpu = Device::cuda();

std::unique_ptr<cuda::Executable> executable_of(const ExportedKernel& k, const heddle_code& code) {
  auto program = std::make_shared<cuda::Program>(*k.gpu);
  program->cubin.assign(reinterpret_cast<const char*>(code.begin),
                        reinterpret_cast<const char*>(code.end));
  return std::make_unique<cuda::Executable>(std::move(program), k.name, static_cast<size_t>(k.args),
                                            k.prepared_bytes.size());
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
      : heddle_network(std::move(p)),
        calls_(program.sizes.empty() ? cuda::DeviceCalls::kGraphs
                                     : cuda::DeviceCalls::kGraphsOfSizes) {
    for (const ExportedKernel& k : program.kernels) {
      kernels_.push_back(executable_of(k, code[kernels_.size()]));
      if (!k.gpu->launches.empty()) kernels_.back()->load(kGpu.index);
    }
    load_weights(weights);
    if (program.arena_bytes > 0) arena_ = NDArray::empty({program.arena_bytes}, u8, kGpu);
    for (const ExportedStep& step : program.steps) {
      first_.push_back(bound_.size());
      for (const ExportedVariant& variant : step.variants) bind(variant);
    }
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
    check_arguments(program.name, program.args, given, true);
    calls_.call(program.args, given, [&](std::span<const NDArray> here) { launch(here, sizes); });
  }

 private:
  /// A kernel of a step with its buffers.
  struct Bound {
    const cuda::Executable* kernel;
    size_t first, count;        ///< of `buffers_`
    std::vector<size_t> sizes;  ///< the sizes that it takes, by number
  };
  struct Argument {
    size_t buffer;
    size_t tensor;  ///< the number of an input, or of an output after all inputs
  };

  /// Arrays that steps read stay on the GPU. Arrays that are only input of a preparation do not.
  void load_weights(const std::string& path) {
    const ExportedWeights mapped(path, program);
    const auto on_gpu = [&](size_t a) {
      const ExportedArray& array = program.arrays[a];
      return NDArray::wrap(mapped.at(array.at), {array.bytes}, u8).to_device(kGpu);
    };
    arrays_.resize(program.arrays.size());
    for (const ExportedStep& step : program.steps) {
      for (const ExportedVariant& variant : step.variants) {
        for (const ExportedPlace& p : variant.places) {
          if (p.where != ExportedPlace::Array) continue;
          NDArray& array = arrays_[static_cast<size_t>(p.at)];
          if (!array.defined()) array = on_gpu(static_cast<size_t>(p.at));
        }
      }
    }
    for (const ExportedPreparation& wanted : program.preparations) {
      const auto kernel = static_cast<size_t>(wanted.kernel);
      std::vector<NDArray> constants;  // alive until the preparation is done
      std::vector<void*> buffers;
      for (const int a : wanted.arrays) {
        if (a < 0) {
          buffers.push_back(nullptr);
          continue;
        }
        const NDArray& resident = arrays_[static_cast<size_t>(a)];
        constants.push_back(resident.defined() ? resident : on_gpu(static_cast<size_t>(a)));
        buffers.push_back(constants.back().data());
      }
      for (const int64_t bytes : program.kernels[kernel].prepared_bytes) {
        prepared_.push_back(NDArray::zeros({bytes}, u8, kGpu));
        buffers.push_back(prepared_.back().data());
      }
      kernels_[kernel]->prepare(kGpu.index, buffers);
    }
  }

  /// The addresses of those buffers of a kernel that are the same in every call.
  void bind(const ExportedVariant& variant) {
    Bound made{kernels_[static_cast<size_t>(variant.kernel)].get(), buffers_.size(), 0, {}};
    for (const ExportedPlace& p : variant.places) {
      const auto at = static_cast<size_t>(p.at);
      if (p.where == ExportedPlace::Size) {
        made.sizes.push_back(at);
        continue;
      }
      void* address = nullptr;
      if (p.where == ExportedPlace::Argument) arguments_.push_back({buffers_.size(), at});
      if (p.where == ExportedPlace::Arena) address = static_cast<char*>(arena_.data()) + p.at;
      if (p.where == ExportedPlace::Array) address = arrays_[at].data();
      if (p.where == ExportedPlace::Prepared) address = prepared_[at].data();
      buffers_.push_back(address);
    }
    made.count = buffers_.size() - made.first;
    bound_.push_back(std::move(made));
  }

  /// Puts the kernels into the current stream. Concurrent calls wait for each other.
  void launch(std::span<const NDArray> here, std::span<const int64_t> sizes) {
    for (const Argument& a : arguments_) buffers_[a.buffer] = here[a.tensor].data();
    std::vector<int64_t> own;
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const int variant = variant_at(program.steps[s].tree, sizes);
      const Bound& b = bound_[first_[s] + static_cast<size_t>(variant)];
      own.clear();
      for (const size_t size : b.sizes) own.push_back(sizes[size]);
      b.kernel->run(kGpu.index, {buffers_.data() + b.first, b.count}, own);
    }
  }

  std::vector<std::unique_ptr<cuda::Executable>> kernels_;
  std::vector<NDArray> arrays_;    ///< the weights, by number; undefined where not needed
  std::vector<NDArray> prepared_;  ///< the results of all preparations, one after the other
  NDArray arena_;                  ///< the buffers between steps
  std::vector<size_t> first_;      ///< the first of each step in `bound_`
  std::vector<Bound> bound_;       ///< the kernels of all steps
  std::vector<void*> buffers_;     ///< the buffers of all of them
  std::vector<Argument> arguments_;
  cuda::DeviceCalls calls_;  ///< its graphs use the arrays above
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
