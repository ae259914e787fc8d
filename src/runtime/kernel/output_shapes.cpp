#include "heddle/runtime/output_shapes.h"

#include "heddle/support/error.h"
#include "runtime/kernel/check_arguments.h"

namespace heddle {
namespace {

/// The values of the sizes that the extents of the inputs give.
std::vector<int64_t> sizes_of_inputs(const std::string& name, std::span<const KernelArg> args,
                                     std::span<const KernelSize> sizes,
                                     std::span<const NDArray> inputs) {
  std::vector<int64_t> values(sizes.size());
  if (sizes.empty()) return values;
  std::vector<KernelArg> input_args;
  for (const KernelArg& arg : args) {
    if (!arg.output) input_args.push_back(arg);
  }
  for (size_t i = 0; i < input_args.size(); ++i) {
    if (input_args[i].shape.size() == inputs[i].shape().size()) continue;
    throw_runtime_error("input '" + input_args[i].name + "' of kernel '" + name + "' has " +
                        std::to_string(inputs[i].rank()) + " dimensions, and " +
                        std::to_string(input_args[i].shape.size()) + " are expected");
  }
  read_sizes(name, sizes, input_args, inputs,
             [&](size_t size, int64_t value) { values[size] = value; });
  return values;
}

}  // namespace

std::vector<Extents> output_shapes(const std::string& name, std::span<const KernelArg> args,
                                   std::span<const KernelSize> sizes,
                                   std::span<const NDArray> inputs) {
  const std::vector<int64_t> values = sizes_of_inputs(name, args, sizes, inputs);
  std::vector<Extents> shapes;
  for (const KernelArg& arg : args) {
    if (!arg.output) continue;
    shapes.push_back(arg.shape);
    set_extents(shapes.back(), arg.symbolic, values);
  }
  return shapes;
}

}  // namespace heddle
