#include "runtime/kernel/check_arguments.h"

#include <algorithm>
#include <utility>

#include "heddle/support/error.h"
#include "support/stack_array.h"

namespace heddle {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "{";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "}";
}

/// Whether the extents equal those of `want`, apart from those that depend on sizes.
bool fits(const std::vector<int64_t>& shape, const KernelArg& want) {
  if (shape.size() != want.shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (want.shape[d] != shape[d] && (want.shape[d] >= 0 || want.symbolic.empty())) return false;
  }
  return true;
}

// An array without elements shares no memory.
bool overlap(const NDArray& a, const NDArray& b) {
  const auto begin = [](const NDArray& x) { return static_cast<const char*>(x.address()); };
  return a.bytes() > 0 && b.bytes() > 0 && begin(a) < begin(b) + b.bytes() &&
         begin(b) < begin(a) + a.bytes();
}

/// Whether no two of the arrays share memory, by their order in it.
bool all_apart(std::span<const NDArray> arrays) {
  using Range = std::pair<const char*, const char*>;
  StackArray<Range, 128> ranges(arrays.size());
  Range* end = ranges.data();
  for (const NDArray& a : arrays) {
    const auto* const begin = static_cast<const char*>(a.address());
    if (a.bytes() > 0) *end++ = {begin, begin + a.bytes()};
  }
  std::sort(ranges.data(), end);
  return std::adjacent_find(ranges.data(), end, [](const Range& a, const Range& b) {
           return b.first < a.second;
         }) == end;
}

// The code is compiled under the assumption that its outputs overlap no other array.
void check_overlap(const std::string& name, std::span<const KernelArg> args,
                   std::span<const NDArray> arrays) {
  constexpr size_t kFew = 8;  // pairs of which are soon compared
  if (arrays.size() > kFew && all_apart(arrays)) return;
  for (size_t o = 0; o < arrays.size(); ++o) {
    if (!args[o].output) continue;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (i == o || !overlap(arrays[o], arrays[i])) continue;
      throw_runtime_error("arguments '" + args[o].name + "' and '" + args[i].name +
                              "' of kernel '" + name + "' overlap in memory",
                          {}, "give every output an array of its own");
    }
  }
}

void check_count(const std::string& name, std::span<const KernelArg> args,
                 std::span<const NDArray> arrays) {
  if (arrays.size() == args.size()) return;
  throw_runtime_error("kernel '" + name + "' takes " + std::to_string(args.size()) +
                      " arguments, but " + std::to_string(arrays.size()) + " were given");
}

void check_argument(const std::string& name, size_t i, const KernelArg& want, const NDArray& got,
                    bool for_gpu) {
  auto what = [&] {
    return "argument " + std::to_string(i) + " ('" + want.name + "') of kernel '" + name + "' ";
  };
  if (!got.defined()) throw_runtime_error(what() + "is no array");
  if (got.dtype() != want.dtype) {
    throw_runtime_error(what() + "must be " + to_string(want.dtype) + ", but is " +
                        to_string(got.dtype()));
  }
  if (!fits(got.shape(), want)) {
    throw_runtime_error(what() + "must have shape " + shape_text(want.shape) + ", but has " +
                        shape_text(got.shape()));
  }
  if (reinterpret_cast<uintptr_t>(got.address()) % want.dtype.bytes() != 0) {
    throw_runtime_error(what() + "is not aligned to its element type");
  }
  if (want.alignment > 1 && got.device().is_cuda() &&
      reinterpret_cast<uintptr_t>(got.address()) % static_cast<uintptr_t>(want.alignment) != 0) {
    throw_runtime_error(what() + "is not aligned to " + std::to_string(want.alignment) + " bytes",
                        {}, "pass a copy(): views may begin anywhere");
  }
  if (got.device().is_cuda() && !for_gpu) {
    throw_runtime_error(
        what() + "is on " + to_string(got.device()) + ", and the kernel runs on the CPU", {},
        "pass to_host(), or build it for Target::cuda()");
  }
}

/// `first`: the position of an argument whose device the others share.
void check_device(const std::string& name, size_t i, size_t first, std::span<const KernelArg> args,
                  std::span<const NDArray> arrays) {
  if (arrays[i].device() == arrays[first].device()) return;
  throw_runtime_error("argument " + std::to_string(i) + " ('" + args[i].name + "') of kernel '" +
                          name + "' is on " + to_string(arrays[i].device()) + ", but argument " +
                          std::to_string(first) + " ('" + args[first].name + "') is on " +
                          to_string(arrays[first].device()),
                      {}, "move them to one device: to_device()");
}

}  // namespace

Device check_arguments(const std::string& name, std::span<const KernelArg> args,
                       std::span<const NDArray> arrays, bool for_gpu) {
  check_count(name, args, arrays);
  for (size_t i = 0; i < arrays.size(); ++i) {
    check_argument(name, i, args[i], arrays[i], for_gpu);
    if (i > 0) check_device(name, i, 0, args, arrays);
  }
  check_overlap(name, args, arrays);
  return arrays.empty() ? Device::cpu() : arrays[0].device();
}

void check_apart(const std::string& name, std::span<const KernelArg> args,
                 std::span<const NDArray> arrays, const MemoryRanges& constants) {
  for (size_t o = 0; o < arrays.size(); ++o) {
    if (!args[o].output || !constants.overlap(arrays[o])) continue;
    throw_runtime_error("argument '" + args[o].name + "' of kernel '" + name +
                            "' overlaps in memory with one of its constants",
                        {}, "give every output an array of its own");
  }
}

Device check_constants(const std::string& name, std::span<const KernelArg> args,
                       std::span<const NDArray> arrays, bool for_gpu) {
  check_count(name, args, arrays);
  size_t first = arrays.size();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!args[i].constant) continue;
    first = std::min(first, i);
    check_argument(name, i, args[i], arrays[i], for_gpu);
    check_device(name, i, first, args, arrays);
  }
  return first < arrays.size() ? arrays[first].device() : Device::cpu();
}

}  // namespace heddle
