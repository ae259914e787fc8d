#include "runtime/check_arguments.h"

#include "heddle/support/error.h"

namespace heddle {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "{";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "}";
}

// The code is compiled on the promise that what it writes overlaps nothing else.
void check_overlap(const std::string& name, std::span<const KernelArg> args,
                   std::span<const NDArray> arrays) {
  auto begin = [](const NDArray& a) { return static_cast<const char*>(a.data()); };
  for (size_t o = 0; o < arrays.size(); ++o) {
    if (!args[o].output) continue;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (i == o || begin(arrays[o]) >= begin(arrays[i]) + arrays[i].bytes() ||
          begin(arrays[i]) >= begin(arrays[o]) + arrays[o].bytes()) {
        continue;
      }
      throw_runtime_error("arguments '" + args[o].name + "' and '" + args[i].name +
                              "' of kernel '" + name + "' overlap in memory",
                          {}, "give every output an array of its own");
    }
  }
}

}  // namespace

Device check_arguments(const std::string& name, std::span<const KernelArg> args,
                       std::span<const NDArray> arrays, bool for_gpu) {
  if (arrays.size() != args.size()) {
    throw_runtime_error("kernel '" + name + "' takes " + std::to_string(args.size()) +
                        " arguments, but " + std::to_string(arrays.size()) + " were given");
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const KernelArg& want = args[i];
    const NDArray& got = arrays[i];
    auto what = [&] {
      return "argument " + std::to_string(i) + " ('" + want.name + "') of kernel '" + name + "' ";
    };
    if (!got.defined()) throw_runtime_error(what() + "is no array");
    if (got.dtype() != want.dtype) {
      throw_runtime_error(what() + "must be " + to_string(want.dtype) + ", but is " +
                          to_string(got.dtype()));
    }
    if (got.shape() != want.shape) {
      throw_runtime_error(what() + "must have shape " + shape_text(want.shape) + ", but has " +
                          shape_text(got.shape()));
    }
    if (reinterpret_cast<uintptr_t>(got.data()) % want.dtype.bytes() != 0) {
      throw_runtime_error(what() + "is not aligned to its element type");
    }
    if (want.alignment > 1 && got.device().is_cuda() &&
        reinterpret_cast<uintptr_t>(got.data()) % static_cast<uintptr_t>(want.alignment) != 0) {
      throw_runtime_error(what() + "is not aligned to " + std::to_string(want.alignment) + " bytes",
                          {}, "pass a copy(): views may begin anywhere");
    }
    if (got.device().is_cuda() && !for_gpu) {
      throw_runtime_error(
          what() + "is on " + to_string(got.device()) + ", and the kernel runs on the CPU", {},
          "pass to_host(), or build it for Target::cuda()");
    }
    if (got.device() != arrays[0].device()) {
      throw_runtime_error(what() + "is on " + to_string(got.device()) + ", but argument 0 ('" +
                              args[0].name + "') is on " + to_string(arrays[0].device()),
                          {}, "move them to one device: to_device()");
    }
  }
  check_overlap(name, args, arrays);
  return arrays.empty() ? Device::cpu() : arrays[0].device();
}

}  // namespace heddle
