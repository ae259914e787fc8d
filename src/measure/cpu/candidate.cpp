#include "measure/cpu/candidate.h"

#include "codegen/code_features.h"
#include "driver/program_args.h"
#include "heddle/codegen/llvm.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "runtime/kernel/arg_json.h"
#include "runtime/machine/cpu_features.h"
#include "support/hashing/hex.h"

namespace heddle::measuring {

Json compile_for_elsewhere(const ReplayedSchedule& replayed) {
  const Schedule& schedule = replayed.schedule;
  const BuildOptions options;
  const std::vector<Tensor> all = driver::with_bound(schedule, replayed.args);
  const LoweredProgram program = driver::lower_for_build(schedule, all, options);
  std::vector<LoweredFunction> functions{program.main};
  if (program.prepare.body) functions.push_back(program.prepare);
  Json names = Json::array();
  for (const LoweredFunction& f : functions) names.push_back(Json(f.name));
  return Json::object({{"object", bytes_to_hex(emit_llvm(functions, schedule.target(), "o"))},
                       {"functions", std::move(names)},
                       {"args", args_to_json(driver::kernel_args(all, replayed.args.size(),
                                                                 program.constant_args))},
                       {"persistent", args_to_json(driver::persistent_args(program))}});
}

Kernel load_compiled(const Json& json, const ReplayedSchedule& replayed) {
  const Target& target = replayed.schedule.target();
  if (!(target == Target::host() || target.runs_here()))
    throw_user_error("code for the target '" + to_string(target) +
                     "' does not run on this machine");
  const std::vector<std::string> missing =
      internal::missing_features(codegen::code_features(target));
  if (!missing.empty())
    throw_user_error("code for the target '" + to_string(target) + "' may use " + missing.front() +
                     ", which this machine lacks");
  std::vector<std::string> names;
  for (const Json& name : json.at("functions").elements()) names.push_back(name.as_string());
  if (names.empty() || names.size() > 2) throw_user_error("a candidate has one function, or two");
  CompiledModule module = load_object(bytes_from_hex(json.at("object").as_string()), names);
  const std::vector<Tensor> all = driver::with_bound(replayed.schedule, replayed.args);
  KernelCode code;
  code.name = "kernel";
  code.args = args_from_json(json.at("args"));
  code.bound = driver::bound_constants(all, replayed.args.size());
  code.persistent = args_from_json(json.at("persistent"));
  code.main = module.entries[0];
  if (names.size() > 1) code.prepare = module.entries[1];
  code.code = module.code;
  return Kernel(std::move(code));
}

}  // namespace heddle::measuring
