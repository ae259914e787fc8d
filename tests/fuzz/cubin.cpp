// A file of the cache of machine code that this user stored. The log of the compiler in it is also
// parsed alone.
#include <stdlib.h>

#include "codegen/cuda/nvrtc/cubin_cache.h"
#include "codegen/cuda/nvrtc/ptxas_log.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/scratch.h"
#include "heddle/codegen/cuda.h"
#include "heddle/support/error.h"

namespace heddle::fuzz {
namespace {

constexpr const char* kKey = "0123456789abcdef0123456789abcdef";

}  // namespace

void read_cubin(std::string_view bytes) {
  ::setenv("HEDDLE_CUBIN_CACHE", scratch_folder().c_str(), 1);
  disk_cubin_cache().store(kKey, std::string(bytes));
  const std::string log(bytes);
  cuda::parse_resources(log);
  cuda::parse_warnings(log);
  cuda::first_error_line(log, "kernel.cu");
  const std::optional<cuda::Cubin> cubin = cuda::load_cubin(kKey);
  if (!cubin) throw_user_error("the cache does not have it");
  cuda::store_cubin(kKey, *cubin);
  const std::optional<cuda::Cubin> again = cuda::load_cubin(kKey);
  HEDDLE_ICHECK(
      again && again->bytes == cubin->bytes && again->kernels.size() == cubin->kernels.size(),
      "a stored cubin is read as another");
}

std::vector<std::string> cubin_seeds() {
  ::setenv("HEDDLE_CUBIN_CACHE", scratch_folder().c_str(), 1);
  cuda::Cubin cubin;
  cubin.arch = "sm_90a";
  cubin.compile_s = 0.25;
  cubin.bytes = std::string(
      "\x7f"
      "ELF\0\n\xff",
      7);
  cubin.log =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "    32 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 49152 bytes smem, 400 bytes cmem[0]\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized\n"
      "kernel.cu(12): error: identifier \"x\" is undefined\n";
  cuda::store_cubin(kKey, cubin);
  return {disk_cubin_cache().load(kKey).content.value()};
}

}  // namespace heddle::fuzz
