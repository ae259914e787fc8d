#include "heddle/driver/export.h"

#include "codegen/code_features.h"
#include "driver/build_cuda.h"
#include "driver/export_parts.h"
#include "driver/program_args.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "runtime/cuda/cuda_program.h"
#include "runtime/cuda/program_json.h"
#include "runtime/kernel/arg_json.h"
#include "support/file.h"

namespace heddle {
namespace exporting {
namespace {

void export_for_gpu(const Schedule& schedule, const std::vector<Tensor>& args,
                    const std::string& stem, const BuildOptions& options) {
  const KernelCode code = compile_cuda_code(schedule, args, options);
  Json j = Json::object({{"name", options.name}, {"target", to_string(schedule.target())}});
  j["args"] = args_to_json(code.args);
  j["constants"] = exporting::export_constants(code.bound, stem);
  j["persistent"] = args_to_json(code.persistent);
  j["gpu"] = export_program(*code.cuda, stem);
  write_file_atomic(stem + ".json", j.dump(1) + "\n");
}

}  // namespace

Json export_program(const cuda::Program& program, const std::string& stem,
                    const std::string& ending) {
  Json j = cuda::to_json(program);
  j["file"] = ending;  // appended to the stem
  write_file_atomic(stem + ending, program.cubin);
  return j;
}

Json export_constants(const std::vector<BoundConstant>& constants, const std::string& stem) {
  Json list = Json::array();
  for (size_t i = 0; i < constants.size(); ++i) {
    const std::string ending = ".constant" + std::to_string(i) + ".npy";
    constants[i].array.save(stem + ending);
    Json j = arg_to_json(constants[i].arg);
    j["file"] = ending;  // appended to the stem, which may change
    list.push_back(std::move(j));
  }
  return list;
}

const Target& exported_target(const Schedule& schedule, const BuildOptions& options) {
  const Target& target = target_of(schedule, options);
  if (options.check_finite || options.check_indices) {
    throw_user_error("a kernel with checks of its arguments cannot be exported", {},
                     "leave BuildOptions::check_finite and check_indices out; build() has them");
  }
  return target;
}

void check_constant_shapes(const std::vector<Var>& sizes) {
  if (sizes.empty()) return;
  throw_user_error("dimension '" + sizes[0]->name +
                       "' has no constant size, and exported kernels take constant shapes",
                   {}, "export the declaration at one size: at_sizes (dag/instance.h)");
}

}  // namespace exporting

void export_kernel(const Schedule& schedule, const std::vector<Tensor>& args,
                   const std::string& stem, const BuildOptions& options) {
  using namespace exporting;
  const Target& target = exported_target(schedule, options);
  if (target.is_cuda()) return export_for_gpu(schedule, args, stem, options);
  const std::vector<Tensor> all = with_bound(schedule, args);
  const LoweredProgram program = lower_for_build(schedule, all, options);
  check_constant_shapes(program.main.sizes);
  std::vector<LoweredFunction> functions{program.main};
  functions[0].name = "heddle_kernel_main";
  const bool prepares = static_cast<bool>(program.prepare.body);
  if (prepares) {
    functions.push_back(program.prepare);
    functions[1].name = "heddle_kernel_prepare";
  }
  Json j = Json::object({{"name", options.name}, {"target", to_string(target)}});
  j["features"] = Json::array_of(codegen::code_features(target));
  j["prepares"] = prepares;
  j["args"] = args_to_json(kernel_args(all, args.size(), program.constant_args));
  j["constants"] = export_constants(bound_constants(all, args.size()), stem);
  j["persistent"] = args_to_json(persistent_args(program));
  write_file_atomic(stem + ".o", emit_llvm(functions, target, "o"));
  write_file_atomic(stem + ".json", j.dump(1) + "\n");
}

}  // namespace heddle
