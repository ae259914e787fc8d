#include "driver/program_args.h"

#include "driver/build_cuda.h"

namespace heddle {

LoweredProgram lower_for_build(const Schedule& schedule, const std::vector<Tensor>& args,
                               const BuildOptions& options) {
  LowerOptions lower_options;
  lower_options.name = options.name;
  lower_options.max_unroll = options.max_unroll;
  if (int limit = current_auto_scheduler_options().max_unroll) lower_options.max_unroll = limit;
  return lower(schedule, args, lower_options);
}

std::vector<KernelArg> kernel_args(const LoweredProgram& program, const std::vector<Tensor>& args) {
  std::vector<KernelArg> out;
  for (size_t i = 0; i < args.size(); ++i) {
    KernelArg a = describe(args[i].buffer());  // an alternative may give it other dimensions
    a.output = !args[i].op()->is_placeholder();
    a.constant = !program.constant_args.empty() && args[i].op()->is_constant();
    out.push_back(std::move(a));
  }
  return out;
}

std::vector<KernelArg> persistent_args(const LoweredProgram& program) {
  std::vector<KernelArg> out;
  for (const Buffer& b : program.persistent) out.push_back(describe(b));
  return out;
}

}  // namespace heddle
