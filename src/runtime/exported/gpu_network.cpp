// Runs networks for a GPU that export_network wrote. This file is linked into their library.
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
#include "runtime/exported/open_networks.h"
#include "runtime/exported/sizes.h"
#include "runtime/exported/weights.h"
#include "runtime/kernel/check_arguments.h"

namespace heddle {
namespace {

using Tables = heddle_gpu_network_tables;

const Device kGpu = Device::cuda();

/// The expression whose numbers begin at `at`, which is moved behind them.
cuda::SizeExpr size_expr(const int64_t*& at) {
  cuda::SizeExpr e;
  const int64_t count = *at++;
  for (int64_t i = 0; i < count; ++i, at += 2)
    e.items.push_back({static_cast<cuda::SizeExpr::Op>(at[0]), at[1]});
  return e;
}

std::vector<cuda::TensorMap> maps_of(const heddle_launch& l) {
  std::vector<cuda::TensorMap> maps;
  const int64_t* at = l.maps;
  for (int32_t i = 0; i < l.num_maps; ++i) {
    const int64_t* shape = at + 5;
    const int64_t* windows = shape + at[4];
    maps.push_back({static_cast<int>(at[0]),
                    static_cast<int>(at[1]),
                    {shape, windows},
                    static_cast<int>(at[2]),
                    at[3]});
    at = windows + 1;
    for (int64_t w = 0; w < *windows; ++w, at += 3)
      maps.back().windows.push_back({at[0], at[1], at[2]});
    const int64_t symbolic = *at++;
    for (int64_t d = 0; d < symbolic; ++d) maps.back().shape_of.push_back(size_expr(at));
  }
  return maps;
}

/// The expressions of heddle_launch::grid_of.
std::array<cuda::SizeExpr, 3> grid_of(const int64_t* at) {
  std::array<cuda::SizeExpr, 3> grid;
  for (cuda::SizeExpr& e : grid) e = size_expr(at);
  return grid;
}

std::vector<cuda::Launch> launches_of(const heddle_launch* list, int32_t count) {
  std::vector<cuda::Launch> launches;
  for (const heddle_launch* l = list; l != list + count; ++l) {
    launches.push_back({l->function,
                        {l->grid[0], l->grid[1], l->grid[2]},
                        {l->block[0], l->block[1], l->block[2]},
                        l->shared_bytes,
                        l->cluster,
                        {l->buffers, l->buffers + l->num_buffers},
                        maps_of(*l)});
    launches.back().overlaps = l->overlaps != 0;
    launches.back().sizes.assign(l->sizes, l->sizes + l->num_sizes);
    launches.back().grid_of = grid_of(l->grid_of);
  }
  return launches;
}

std::unique_ptr<cuda::Executable> executable_of(const heddle_gpu_kernel& k) {
  auto program = std::make_shared<cuda::Program>();
  program->arch = k.arch;
  program->cubin.assign(reinterpret_cast<const char*>(k.code),
                        reinterpret_cast<const char*>(k.code_end));
  program->launches = launches_of(k.launches, k.num_launches);
  program->prepare = launches_of(k.prepare, k.num_prepare);
  for (int32_t i = 0; i < k.num_scratch; ++i)
    program->workspaces.push_back({k.scratch[i].bytes, k.scratch[i].zeroed != 0});
  return std::make_unique<cuda::Executable>(std::move(program), k.name,
                                            static_cast<size_t>(k.num_args),
                                            static_cast<size_t>(k.num_prepared));
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
void check_device(const Tables& t) {
  const auto refuse = [&](const std::string& why, const std::string& help) {
    throw_runtime_error(std::string("'") + t.name + "' was compiled for '" + t.target + "': " + why,
                        {}, help);
  };
  const cuda::DeviceState* device = nullptr;
  try {
    device = &cuda::device_state(kGpu.index);
  } catch (const Error& error) {
    refuse(error.message,
           "it needs an NVIDIA GPU and its driver, libcuda.so.1 or what HEDDLE_LIBCUDA names");
  }
  for (int32_t k = 0; k < t.num_kernels; ++k) {
    const std::string arch = t.kernels[k].arch;
    if (t.kernels[k].num_launches == 0 || runs_on(arch, device->info)) continue;
    refuse("its code is for " + arch + ", and this GPU (" + device->info.name + ") is sm_" +
               std::to_string(10 * device->info.major + device->info.minor),
           "export it for this GPU");
  }
}

/// The shape at these sizes.
Extents shape_of(const KernelArg& arg, const std::vector<int64_t>& sizes) {
  Extents shape = arg.shape;
  for (const SymbolicExtent& e : arg.symbolic) {
    int64_t& extent = shape[static_cast<size_t>(e.dim)];
    extent = e.constant;
    for (const auto& [size, factor] : e.terms) extent += factor * sizes[static_cast<size_t>(size)];
  }
  return shape;
}

std::vector<KernelArg> args_of(const Tables& t) {
  std::vector<KernelArg> args;
  for (int32_t i = 0; i < t.num_inputs + t.num_outputs; ++i) {
    const heddle_tensor& tensor = t.tensors[i];
    const std::optional<DataType> dtype = parse_dtype(tensor.dtype);
    if (!dtype) throw_runtime_error(std::string("unknown type ") + tensor.dtype);
    args.push_back({.name = tensor.name,
                    .dtype = *dtype,
                    .shape = {tensor.shape, tensor.shape + tensor.rank},
                    .output = i >= t.num_inputs,
                    .alignment = 16});
  }
  for (const heddle_extent* e = t.extents; e != t.extents + t.num_extents; ++e) {
    SymbolicExtent extent{.dim = e->dim, .constant = e->constant, .terms = {}};
    for (int32_t i = 0; i < e->num_terms; ++i)
      extent.terms.push_back({static_cast<int>(e->terms[2 * i]), e->terms[2 * i + 1]});
    args[static_cast<size_t>(e->tensor)].symbolic.push_back(std::move(extent));
  }
  return args;
}

}  // namespace
}  // namespace heddle

struct heddle_gpu_network {
  heddle_gpu_network(const heddle_gpu_network_tables& t, const std::string& weights)
      : tables(t),
        tensors(t.name, t.tensors, t.num_inputs, t.num_outputs),
        args(heddle::args_of(t)),
        calls(t.num_sizes == 0 ? heddle::cuda::DeviceCalls::kGraphs
                               : heddle::cuda::DeviceCalls::kGraphsOfSizes) {
    using heddle::kGpu;
    for (int32_t k = 0; k < t.num_kernels; ++k) {
      kernels.push_back(heddle::executable_of(t.kernels[k]));
      if (t.kernels[k].num_launches > 0) kernels.back()->load(kGpu.index);
    }
    load_weights(weights);
    if (t.arena_bytes > 0) arena = heddle::NDArray::empty({t.arena_bytes}, heddle::u8, kGpu);
    for (int32_t s = 0; s < t.num_steps; ++s) {
      first.push_back(bound.size());
      for (int32_t v = 0; v < t.steps[s].num_variants; ++v) bind(t.steps[s].variants[v]);
    }
  }

  /// Arrays that steps read stay on the GPU. Arrays that are only input of a preparation do not.
  void load_weights(const std::string& path) {
    using heddle::NDArray;
    const heddle::ExportedWeights mapped(
        path, tables.name, {tables.weights_bytes, tables.weights_hash, tables.check_weights != 0});
    const auto on_gpu = [&](int32_t a) {
      const heddle_array& array = tables.arrays[a];
      return NDArray::wrap(mapped.at(array.at), {array.bytes}, heddle::u8).to_device(heddle::kGpu);
    };
    arrays.resize(static_cast<size_t>(tables.num_arrays));
    for (const heddle_gpu_step* s = tables.steps; s != tables.steps + tables.num_steps; ++s) {
      for (const heddle_gpu_variant* v = s->variants; v != s->variants + s->num_variants; ++v) {
        for (const heddle_place* p = v->places; p != v->places + v->num_places; ++p) {
          if (p->where != HEDDLE_ARRAY) continue;
          NDArray& array = arrays[static_cast<size_t>(p->at)];
          if (!array.defined()) array = on_gpu(static_cast<int32_t>(p->at));
        }
      }
    }
    for (int32_t i = 0; i < tables.num_preparations; ++i) {
      const heddle_preparation& wanted = tables.preparations[i];
      const heddle_gpu_kernel& kernel = tables.kernels[wanted.kernel];
      std::vector<NDArray> constants;  // alive until the preparation is done
      std::vector<void*> buffers;
      for (int32_t a = 0; a < kernel.num_args; ++a) {
        const int32_t at = wanted.arrays[a];
        if (at < 0) {
          buffers.push_back(nullptr);
          continue;
        }
        const NDArray& resident = arrays[static_cast<size_t>(at)];
        constants.push_back(resident.defined() ? resident : on_gpu(at));
        buffers.push_back(constants.back().data());
      }
      for (int32_t p = 0; p < kernel.num_prepared; ++p) {
        prepared.push_back(NDArray::zeros({kernel.prepared_bytes[p]}, heddle::u8, heddle::kGpu));
        buffers.push_back(prepared.back().data());
      }
      kernels[static_cast<size_t>(wanted.kernel)]->prepare(heddle::kGpu.index, buffers);
    }
  }

  /// The addresses of those buffers of a kernel that are the same in every call.
  void bind(const heddle_gpu_variant& variant) {
    Bound made{kernels[static_cast<size_t>(variant.kernel)].get(), buffers.size(), 0, {}};
    for (const heddle_place* p = variant.places; p != variant.places + variant.num_places; ++p) {
      const auto at = static_cast<size_t>(p->at);
      if (p->where == HEDDLE_SIZE) {
        made.sizes.push_back(at);
        continue;
      }
      void* address = nullptr;
      if (p->where == HEDDLE_ARGUMENT) arguments.push_back({buffers.size(), at});
      if (p->where == HEDDLE_ARENA) address = static_cast<char*>(arena.data()) + p->at;
      if (p->where == HEDDLE_ARRAY) address = arrays[at].data();
      if (p->where == HEDDLE_PREPARED) address = prepared[at].data();
      buffers.push_back(address);
    }
    made.count = buffers.size() - made.first;
    bound.push_back(std::move(made));
  }

  void run(const int64_t* sizes, const void* const* inputs, void* const* outputs,
           heddle::Device device) {
    const std::vector<int64_t> values =
        heddle::checked_sizes(tables.name, tables.sizes, tables.num_sizes, sizes);
    tensors.check(inputs, outputs);
    std::vector<heddle::NDArray> given;
    for (int32_t i = 0; i < tables.num_inputs + tables.num_outputs; ++i) {
      void* data =
          i < tables.num_inputs ? const_cast<void*>(inputs[i]) : outputs[i - tables.num_inputs];
      const heddle::KernelArg& arg = args[static_cast<size_t>(i)];
      given.push_back(
          heddle::NDArray::wrap(data, heddle::shape_of(arg, values), arg.dtype, device));
    }
    heddle::check_arguments(tables.name, args, given, true);
    calls.call(args, given, [&](std::span<const heddle::NDArray> here) { launch(here, values); });
  }

  /// Puts the kernels into the current stream. Concurrent calls wait for each other.
  void launch(std::span<const heddle::NDArray> here, const std::vector<int64_t>& values) {
    for (const Argument& a : arguments) buffers[a.buffer] = here[a.tensor].data();
    std::vector<int64_t> own;
    for (int32_t s = 0; s < tables.num_steps; ++s) {
      const heddle_gpu_step& step = tables.steps[s];
      const int32_t v = heddle::exported_variant(step.questions, step.num_variants, values);
      const Bound& b = bound[first[static_cast<size_t>(s)] + static_cast<size_t>(v)];
      own.clear();
      for (const size_t size : b.sizes) own.push_back(values[size]);
      b.kernel->run(heddle::kGpu.index, {buffers.data() + b.first, b.count}, own);
    }
  }

  /// A kernel of a step with its buffers.
  struct Bound {
    const heddle::cuda::Executable* kernel;
    size_t first, count;        ///< of `buffers`
    std::vector<size_t> sizes;  ///< the sizes that it takes, by number
  };
  struct Argument {
    size_t buffer;
    size_t tensor;  ///< the number of an input, or of an output after all inputs
  };
  const heddle_gpu_network_tables& tables;
  heddle::ExportedTensors tensors;
  std::vector<heddle::KernelArg> args;
  std::vector<std::unique_ptr<heddle::cuda::Executable>> kernels;
  std::vector<heddle::NDArray> arrays;    ///< the weights, by number; undefined where not needed
  std::vector<heddle::NDArray> prepared;  ///< the results of all preparations, one after the other
  heddle::NDArray arena;                  ///< the buffers between steps
  std::vector<size_t> first;              ///< the first of each step in `bound`
  std::vector<Bound> bound;               ///< the kernels of all steps
  std::vector<void*> buffers;             ///< the buffers of all of them
  std::vector<Argument> arguments;
  heddle::cuda::DeviceCalls calls;  ///< its graphs use the arrays above
};

namespace {

// Never destroyed, because the driver may be gone when the process ends.
auto& open_networks = *new heddle::OpenNetworks<heddle_gpu_network>();

}  // namespace

extern "C" {

heddle_gpu_network* heddle_gpu_network_open(const heddle_gpu_network_tables* tables,
                                            const char* weights) HEDDLE_NOEXCEPT {
  heddle_gpu_network* network = nullptr;
  heddle::succeeds([&] {
    heddle::check_exported_version(tables->name, tables->version);
    heddle::check_device(*tables);
    network = open_networks.add(std::make_shared<heddle_gpu_network>(
        *tables, heddle::weights_path(tables, tables->name, weights)));
  });
  return network;
}

int heddle_gpu_network_run(heddle_gpu_network* network, const int64_t* sizes,
                           const void* const* inputs, void* const* outputs) HEDDLE_NOEXCEPT {
  const bool done = heddle::succeeds(
      [&] { open_networks.find(network)->run(sizes, inputs, outputs, heddle::Device::cpu()); });
  return done ? 0 : 1;
}

int heddle_gpu_network_run_on_gpu(heddle_gpu_network* network, const int64_t* sizes,
                                  const void* const* inputs, void* const* outputs,
                                  void* stream) HEDDLE_NOEXCEPT {
  const bool done = heddle::succeeds([&] {
    const auto running = open_networks.find(network);
    const heddle::cuda::StreamScope scope(heddle::cuda::Stream::wrap(stream));
    running->run(sizes, inputs, outputs, heddle::kGpu);
  });
  return done ? 0 : 1;
}

void heddle_gpu_network_close(heddle_gpu_network* network) HEDDLE_NOEXCEPT {
  open_networks.close(network);
}
}
