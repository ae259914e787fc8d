// The fake driver as a library of its own, with the symbols of libcuda.so.1: for programs that open
// the driver by HEDDLE_LIBCUDA. heddle_fake_driver() gives the driver to the test. For a program of
// its own process, HEDDLE_FAKE_KERNELS=any lets every kernel do nothing.
#include <cstdlib>

#include "runtime/cuda/fake_driver.h"

using heddle::cuda::FakeDriver;

extern "C" FakeDriver* heddle_fake_driver() {
  static FakeDriver driver;
  static const bool any = [] {
    const char* kernels = std::getenv("HEDDLE_FAKE_KERNELS");
    return driver.any_kernel = kernels != nullptr && std::string(kernels) == "any";
  }();
  (void)any;
  return &driver;
}

namespace {

using heddle::cuda::api::Api;
using heddle::cuda::api::Result;

/// A C function that passes its parameters on to a function of the table.
template <auto kFunction>
struct Forward;
template <typename... Parameters, Result (*Api::*kFunction)(Parameters...)>
struct Forward<kFunction> {
  static Result call(Parameters... parameters) {
    return (heddle_fake_driver()->api().*kFunction)(parameters...);
  }
};

}  // namespace

// The table lists types and no names of parameters, which a definition would need. So each symbol
// is an indirect function, which the loader resolves to Forward.
extern "C" {
using Function = void (*)();
#define HEDDLE_FAKE_SYMBOL(name, parameters, symbol)               \
  Function heddle_resolve_##name() {                               \
    return reinterpret_cast<Function>(&Forward<&Api::name>::call); \
  }                                                                \
  void heddle_fake_##name() __asm__(symbol) __attribute__((ifunc("heddle_resolve_" #name)));
HEDDLE_CUDA_DRIVER_FUNCTIONS(HEDDLE_FAKE_SYMBOL)
HEDDLE_FAKE_SYMBOL(tensor_map_encode, , "cuTensorMapEncodeTiled")
HEDDLE_FAKE_SYMBOL(tensor_map_encode_windows, , "cuTensorMapEncodeIm2col")
HEDDLE_FAKE_SYMBOL(kernel_node_get, , "cuGraphKernelNodeGetParams_v2")
HEDDLE_FAKE_SYMBOL(kernel_node_set, , "cuGraphExecKernelNodeSetParams_v2")
}
