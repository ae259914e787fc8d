#include "runtime/cuda/driver_api.h"

#include <dlfcn.h>

#include "support/environment.h"

namespace heddle::cuda::api {

std::unique_ptr<const Api> load_driver(std::string& reason) {
  const std::string chosen = internal::environment_value("HEDDLE_LIBCUDA");
  const char* path = chosen.empty() ? "libcuda.so.1" : chosen.c_str();
  // Never closed, because the driver has threads of its own.
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    reason = "the NVIDIA driver was not found: " +
             (error != nullptr ? std::string(error) : std::string(path));
    return nullptr;
  }
  auto table = std::make_unique<Api>();
  std::string missing;
#define HEDDLE_CUDA_LOAD(name, parameters, symbol)                                \
  table->name = reinterpret_cast<Result(*) parameters>(::dlsym(library, symbol)); \
  if (table->name == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  HEDDLE_CUDA_DRIVER_FUNCTIONS(HEDDLE_CUDA_LOAD)
#undef HEDDLE_CUDA_LOAD
  table->tensor_map_encode =
      reinterpret_cast<TensorMapEncode>(::dlsym(library, "cuTensorMapEncodeTiled"));
  table->tensor_map_encode_windows =
      reinterpret_cast<TensorMapEncodeWindows>(::dlsym(library, "cuTensorMapEncodeIm2col"));
  table->kernel_node_get =
      reinterpret_cast<KernelNodeGet>(::dlsym(library, "cuGraphKernelNodeGetParams_v2"));
  table->kernel_node_set =
      reinterpret_cast<KernelNodeSet>(::dlsym(library, "cuGraphExecKernelNodeSetParams_v2"));
  if (!missing.empty()) {
    reason =
        std::string(path) + " lacks " + missing + ": the NVIDIA driver is older than CUDA 11.8";
    return nullptr;
  }
  return table;
}

}  // namespace heddle::cuda::api
