#include "codegen/cuda/nvrtc/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "codegen/cuda/nvrtc/cubin_cache.h"
#include "codegen/cuda/nvrtc/nvrtc_library.h"
#include "codegen/cuda/nvrtc/nvrtc_run.h"
#include "codegen/cuda/nvrtc/ptxas_log.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "support/out_of_memory.h"

namespace heddle::cuda {
namespace {

constexpr const char* kFile = "kernel.cu";

std::atomic<bool> compiles_here{false};

const NvrtcApi& nvrtc() {
  std::string reason;
  if (const NvrtcApi* api = find_nvrtc(reason)) return *api;
  throw_runtime_error(
      "NVRTC, which compiles kernels for NVIDIA GPUs, was not found; tried" + reason, {},
      "install it (the CUDA toolkit, or pip install nvidia-cuda-nvrtc), or set HEDDLE_NVRTC to "
      "libnvrtc.so or its folder");
}

int version_of(const NvrtcApi& api) {
  int major = 0, minor = 0;
  api.version(&major, &minor);
  return 1000 * major + 10 * minor;
}

[[noreturn]] void rejected(NvrtcApi::Result result, const NvrtcApi& api, const std::string& log,
                           const std::string& source, const std::string& arch,
                           const std::vector<std::string>& options) {
  if (result == NvrtcApi::kOutOfMemory)
    throw internal::OutOfMemory("NVRTC had no memory for the CUDA text for " + arch);
  if (result == NvrtcApi::kInvalidOption) {
    std::string given;
    for (const std::string& option : options) given += " " + option;
    throw_user_error("NVRTC " + std::to_string(version_of(api) / 1000) + "." +
                         std::to_string(version_of(api) / 10 % 100) + " (" + api.path +
                         ") does not take the architecture " + arch +
                         (given.empty() ? "" : " or the options" + given) +
                         (log.empty() ? "" : ": " + log),
                     {}, "a newer NVRTC may (HEDDLE_NVRTC)");
  }
  const std::string what =
      "the CUDA text was rejected for " + arch + " (" + api.get_error_string(result) + "):\n" + log;
  const int line = first_error_line(log, kFile);
  // A message without a line of the source is about inline assembly; its lines are those of the
  // PTX.
  throw_internal_error(what + (line > 0 ? "\n" + numbered_lines(source, line) : ""));
}

// NVRTC initialises the driver (13.0 does). Processes forked after that, such as the tuner's
// measuring processes, can never use the GPU. Where there is a driver that this process has not
// used yet, another process therefore compiles.
bool spare_driver() {
  static const bool driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  return driver && !compiles_here.load() && !initialised();
}

Cubin compile(const NvrtcApi& api, const std::string& source, const std::string& arch,
              const std::vector<std::string>& options) {
  const Timer timer;
  NvrtcOutput out = spare_driver() ? run_nvrtc_in_child(api, source, kFile, options)
                                   : run_nvrtc(api, source, kFile, options);
  if (out.result != NvrtcApi::kSuccess) rejected(out.result, api, out.log, source, arch, options);
  HEDDLE_ICHECK(!out.bytes.empty(), "NVRTC made no machine code for '" + arch + "'");
  Cubin cubin;
  cubin.arch = arch;
  cubin.bytes = std::move(out.bytes);
  cubin.log = std::move(out.log);
  cubin.compile_s = timer.elapsed_s();
  cubin.kernels = parse_resources(cubin.log);
  cubin.warnings = parse_warnings(cubin.log);
  return cubin;
}

}  // namespace

const KernelResources* Cubin::find(std::string_view kernel) const {
  for (const KernelResources& k : kernels) {
    if (k.kernel == kernel) return &k;
  }
  return nullptr;
}

Cubin compile_cuda(const std::string& source, const std::string& arch,
                   const std::vector<std::string>& options) {
  if (!arch.starts_with("sm_")) {
    throw_user_error("'" + arch + "' is no architecture to make machine code for", {},
                     "write sm_80, sm_90a, ...");
  }
  const NvrtcApi& api = nvrtc();
  // With -v, ptxas writes the registers and shared memory of each kernel to the log.
  std::vector<std::string> all = {"--gpu-architecture=" + arch, "--std=c++17",
                                  "--ptxas-options=-v"};
  all.insert(all.end(), options.begin(), options.end());
  const std::string key = cubin_key(source, arch, all, version_of(api));
  if (std::optional<Cubin> known = load_cubin(key)) return *std::move(known);
  Cubin cubin = compile(api, source, arch, all);
  store_cubin(key, cubin);
  return cubin;
}

void compile_cuda_here() { compiles_here.store(true); }

bool nvrtc_available() { return nvrtc_missing_reason().empty(); }

std::string nvrtc_missing_reason() {
  try {
    nvrtc();
    return {};
  } catch (const Error& error) {
    return error.message;
  }
}

int nvrtc_version() { return version_of(nvrtc()); }

std::string numbered_lines(const std::string& source, int line, int around) {
  std::string text;
  int number = 1;
  for (std::size_t begin = 0; begin < source.size(); ++number) {
    const std::size_t end = std::min(source.find('\n', begin), source.size());
    if (std::abs(number - line) <= around) {
      char head[16];
      std::snprintf(head, sizeof head, "%c%5d | ", number == line ? '>' : ' ', number);
      text += head + source.substr(begin, end - begin) + "\n";
    }
    begin = end + 1;
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace heddle::cuda
