#include "driver/build_cuda.h"

#include <algorithm>
#include <chrono>

#include "codegen/cuda/nvrtc.h"
#include "driver/program_args.h"
#include "heddle/codegen/cuda.h"
#include "heddle/runtime/cuda_program.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

struct Source {
  GpuProgram program;
};

std::string source_text(const void* context, const std::string& form) {
  const Source& s = *static_cast<const Source*>(context);
  if (form == "cuda" || form == "llvm") return emit_cuda(s.program);  // "llvm": the default form
  if (form == "loops") return to_string(s.program);
  throw_user_error("a kernel for a GPU has no source of the form '" + form + "'", {},
                   "ask for cuda or loops");
}

// Zeroed once. Each launch leaves them zero.
bool is_tickets(const GpuProgram& p, const Buffer& b) {
  for (const auto* list : {&p.prepare, &p.main}) {
    for (const GpuKernel& k : *list) {
      if (k.tail && k.tickets == b) return true;
    }
  }
  return false;
}

// Buffers in the order of cuda::Launch::buffers: arguments, persistent buffers, workspaces.
int position(const GpuProgram& p, const Buffer& b) {
  int at = 0;
  for (const auto* list : {&p.args, &p.persistent, &p.workspace}) {
    for (const Buffer& x : *list) {
      if (x == b) return at;
      ++at;
    }
  }
  throw_internal_error("kernel argument '" + b->name + "' is no buffer of the program");
}

std::vector<cuda::Launch> launches(const GpuProgram& p, const std::vector<GpuKernel>& kernels) {
  std::vector<cuda::Launch> out;
  for (const GpuKernel& k : kernels) {
    cuda::Launch l;
    l.kernel = k.name;
    for (size_t d = 0; d < 3; ++d) {
      l.grid[d] = static_cast<unsigned>(k.grid[d]);
      l.block[d] = static_cast<unsigned>(k.block[d]);
    }
    l.cluster = static_cast<unsigned>(k.cluster);
    l.dynamic_smem = static_cast<unsigned>(k.shared_bytes);
    for (const Buffer& b : k.args) l.buffers.push_back(position(p, b));
    out.push_back(std::move(l));
  }
  return out;
}

// Checks limits that the GPU would refuse at the launch.
void check_limits(const GpuProgram& p, const Gpu& gpu) {
  for (const auto* list : {&p.prepare, &p.main}) {
    for (const GpuKernel& k : *list) {
      const int64_t threads = k.block[0] * k.block[1] * k.block[2];
      if (threads > gpu.threads_per_block) {
        throw_user_error("kernel '" + k.name + "' has " + std::to_string(threads) +
                             " threads a block; " + gpu.name + " allows " +
                             std::to_string(gpu.threads_per_block),
                         {}, "bind shorter loops to threadIdx");
      }
      if (k.shared_bytes > gpu.smem_per_block) {
        throw_user_error("kernel '" + k.name + "' needs " + std::to_string(k.shared_bytes) +
                             " bytes of shared memory; " + gpu.name + " gives a block " +
                             std::to_string(gpu.smem_per_block),
                         {}, "choose smaller tiles or fewer copies of them");
      }
      if (k.cluster > 1 && !gpu.has_clusters()) {
        throw_user_error("kernel '" + k.name + "' has clusters of blocks, and " + gpu.name + " (" +
                             gpu.arch + ") has none: sm_90 and later have",
                         {}, "bind the loop to blockIdx.x");
      }
      if (k.grid[1] > 65535 || k.grid[2] > 65535 || k.grid[0] > INT32_MAX) {
        throw_user_error(
            "kernel '" + k.name + "' needs more blocks along a dimension than a grid has", {},
            "bind the longest loop to blockIdx.x");
      }
    }
  }
}

}  // namespace

KernelCode cuda_kernel_code(const GpuProgram& p, const std::vector<Tensor>& all, size_t listed,
                            cuda::Cubin cubin) {
  auto program = std::make_shared<cuda::Program>();
  program->arch = cubin.arch;
  program->cubin = std::move(cubin.bytes);
  for (const Buffer& b : p.workspace)
    program->workspaces.push_back({b.num_elements() * b->dtype.bytes(), is_tickets(p, b)});
  program->launches = launches(p, p.main);
  program->prepare = launches(p, p.prepare);

  KernelCode code;
  code.name = p.name;
  for (size_t i = 0; i < listed; ++i) {
    KernelArg a = describe(all[i].buffer());  // an alternative may give it other dimensions
    a.output = !all[i].op()->is_placeholder();
    a.constant = !p.constant_args.empty() && all[i].op()->is_constant();
    a.alignment = 16;  // what the text counts on (codegen/cuda.h)
    code.args.push_back(std::move(a));
  }
  code.bound = bound_constants(all, listed);
  for (const Buffer& b : p.persistent) code.persistent.push_back(describe(b));
  code.cuda = std::move(program);
  return code;
}

TimedBuild build_cuda(const Schedule& schedule, const std::vector<Tensor>& args,
                      const BuildOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto ms_since = [](Clock::time_point t) {
    return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
  };
  LowerOptions lower_options;
  lower_options.name = options.name;
  lower_options.max_unroll = options.max_unroll;
  const Gpu& gpu = schedule.target().gpu;
  const std::vector<Tensor> all = with_bound(schedule, args);
  auto source = std::make_shared<Source>(Source{lower_gpu(schedule, all, lower_options)});
  BuildTimes times;
  for (const GpuPassRecord& r : source->program.passes) {
    times.passes.push_back({r.name, r.ms, {}, {}});
  }
  source->program.passes.clear();
  const GpuProgram& p = source->program;
  check_limits(p, gpu);
  times.lower = ms_since(begin);
  const auto compile_begin = Clock::now();
  cuda::Cubin cubin;  // empty for a program without launches, where no output has an element
  if (!p.main.empty() || !p.prepare.empty()) cubin = cuda::compile_cuda(emit_cuda(p), gpu.arch);
  const CacheAnswer cache = cubin.bytes.empty() ? CacheAnswer::NotAsked
                            : cubin.cached      ? CacheAnswer::Found
                                                : CacheAnswer::Missing;
  KernelCode code = cuda_kernel_code(p, all, args.size(), std::move(cubin));
  code.work = work_of(schedule.dag().direct(), schedule.target());
  code.source = source_text;
  code.source_context = source;
  times.codegen = ms_since(compile_begin);
  times.cache = cache;
  times.total = ms_since(begin);
  return {Kernel(std::move(code)), std::move(times)};
}

}  // namespace heddle
