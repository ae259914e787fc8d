#include "measure/task/device_gather.h"

#include <cstring>
#include <string>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "measure/task/reference.h"

namespace heddle::measuring {
namespace {

constexpr unsigned kThreads = 256;

std::string arch_of(int device) {
  const cuda::DeviceInfo info = cuda::devices().at(static_cast<size_t>(device));
  return "sm_" + std::to_string(info.major) + std::to_string(info.minor);
}

}  // namespace

const char* gather_text() {
  return R"(extern "C" __global__ void gather(const unsigned char* from, const long long* positions,
                                  unsigned char* to, long long bytes, long long count) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
  for (long long b = 0; b < bytes; ++b) to[i * bytes + b] = from[positions[i] * bytes + b];
}
)";
}

bool DeviceGather::ready() {
  if (!asked_ && cuda::nvrtc_available())
    module_ = cuda::Module::load(cuda::compile_cuda(gather_text(), arch_of(device_)).bytes, device_,
                                 "gather");
  asked_ = true;
  return module_.has_value();
}

NDArray DeviceGather::operator()(const NDArray& from, std::span<const int64_t> positions) {
  if (!ready()) return gather(from.to_host(), positions);
  const auto count = static_cast<int64_t>(positions.size());
  NDArray at = NDArray::empty({count}, i64);
  std::memcpy(at.data(), positions.data(), positions.size_bytes());
  const NDArray there = at.to_device(from.device());
  const NDArray out = NDArray::empty({count}, from.dtype(), from.device());
  const void *source = from.data(), *index = there.data(), *target = out.data();
  int64_t bytes = from.dtype().bytes(), n = count;
  void* params[] = {&source, &index, &target, &bytes, &n};
  const auto blocks = static_cast<unsigned>((positions.size() + kThreads - 1) / kThreads);
  module_->function("gather").launch(cuda::Stream::current(device_), {blocks, 1, 1},
                                     {kThreads, 1, 1}, params);
  return out.to_host();
}

}  // namespace heddle::measuring
