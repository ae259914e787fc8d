#include "network/export/compiled_kernel.h"

#include <set>

#include "codegen/llvm/jit/object_cache.h"
#include "driver/build_cuda.h"
#include "driver/program_args.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "network/cut/task_schedules.h"
#include "support/files/file.h"

namespace heddle::network {
namespace {

/// The key of a preparation and the arrays that it makes; `name`, which is unique, where the code
/// has no key.
std::string key_of(const LoweredFunction& prepare, const std::vector<KernelArg>& made,
                   const std::string& name) {
  const std::string code = codegen::object_key({prepare}, Target::host(), 2);
  std::string key = code.empty() ? name : code;
  for (const KernelArg& arg : made) {
    key += " " + to_string(arg.dtype);
    for (const int64_t extent : arg.shape) key += "," + std::to_string(extent);
  }
  return key;
}

CompiledKernel compile_for_cpu(const Schedule& schedule, size_t index, const std::string& file) {
  const std::vector<Tensor> args = task_args(schedule);
  const LoweredProgram program =
      driver::lower_for_build(schedule, args, {.name = "heddle_kernel" + std::to_string(index)});
  CompiledKernel made{.entry = program.main.name, .file = file};
  made.sizes = program.main.sizes;
  const std::set<const BufferNode*> used = driver::touched_buffers(program.main.body);
  for (size_t i = 0; i < args.size(); ++i)
    made.read.push_back(used.count(program.main.args[i].get()) != 0);
  write_file_atomic(file, emit_llvm({program.main}, schedule.target(), "o"));
  // The preparation runs on this machine, whatever CPU the network is for.
  if (program.prepare.body) {
    made.constants = program.constant_args;
    made.persistent = driver::persistent_args(program);
    made.prepare = compile_llvm({program.prepare}, Target::host());
    made.prepare_key = key_of(program.prepare, made.persistent, made.entry);
  }
  return made;
}

std::set<int> buffers_of(const std::vector<cuda::Launch>& launches) {
  std::set<int> all;
  for (const cuda::Launch& launch : launches) {
    all.insert(launch.buffers.begin(), launch.buffers.end());
    for (const cuda::TensorMap& map : launch.maps) all.insert(map.buffer);
  }
  return all;
}

CompiledKernel compiled_for_gpu(const KernelCode& code, const std::string& file) {
  HEDDLE_ICHECK(code.bound.empty(), "a task supplies no constants itself");
  CompiledKernel made{.file = file, .persistent = code.persistent, .gpu = code.cuda};
  const std::set<int> needed = buffers_of(code.cuda->prepare);
  for (int i = 0; i < std::ssize(code.args); ++i) {
    made.read.push_back(cuda::calls_read(*code.cuda, static_cast<size_t>(i)));
    if (needed.count(i) != 0) made.constants.push_back(i);
  }
  write_file_atomic(file, code.cuda->cubin);
  return made;
}

}  // namespace

CompiledKernel compile_kernel(const Schedule& schedule, size_t index, size_t task,
                              const std::string& file) {
  if (!schedule.target().is_cuda()) return compile_for_cpu(schedule, index, file);
  std::vector<Var> sizes;
  const KernelCode code = driver::compile_cuda_code(
      schedule, task_args(schedule), {.name = "network_task" + std::to_string(task)}, &sizes);
  CompiledKernel made = compiled_for_gpu(code, file);
  made.sizes = std::move(sizes);
  return made;
}

CompiledKernel compile_joined(const NetworkSteps& steps, size_t k, const std::string& file) {
  const NetworkSteps::Program joined = steps.program(k);
  CompiledKernel made = compiled_for_gpu(
      driver::compile_cuda_code(joined.program, joined.args, joined.args.size(), steps.gpu()),
      file);
  made.sizes = joined.program.sizes;
  return made;
}

}  // namespace heddle::network
