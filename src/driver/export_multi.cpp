#include <algorithm>

#include "codegen/code_features.h"
#include "driver/build_cuda.h"
#include "driver/build_variants.h"
#include "driver/export_parts.h"
#include "driver/program_args.h"
#include "heddle/driver/export.h"
#include "heddle/support/error.h"
#include "runtime/kernel/arg_json.h"
#include "support/file.h"

namespace heddle {
namespace {

/// A variant in the form in which it is written.
struct ExportedVariant {
  std::string name, suffix;  ///< the suffix of its symbols; none for the pick
  LoweredVariant lowered;
};

PickRow race(const std::vector<MultiVariant>& variants, const std::vector<Tensor>& args,
             const BuildOptions& build, double seconds) {
  MultiOptions options;
  options.build = build;
  options.pick.store = nullptr;
  options.pick.seconds = seconds;
  return pick_on_random_inputs(build_multi(variants, args, options));
}

std::vector<ExportedVariant> lowered_variants(const std::vector<MultiVariant>& variants,
                                              const std::vector<Tensor>& args,
                                              const BuildOptions& options, const PickRow& pick) {
  std::vector<ExportedVariant> out;
  for (size_t i = 0; i < variants.size(); ++i) {
    const std::string name = variant_name(variants[i], i);
    // The row does not contain variants that were dropped or whose code equals that of another one.
    const auto row = std::find_if(pick.variants.begin(), pick.variants.end(),
                                  [&](const VariantTimes& v) { return v.name == name; });
    if (row == pick.variants.end() || !row->dropped.empty()) continue;
    const std::string suffix = name == pick.picked ? "" : "_" + std::to_string(i);
    out.push_back(
        {name, suffix,
         lower_variant(*variants[i].schedule, own_args(variants[i], args), args, options)});
  }
  return out;
}

/// Adds the functions of a variant for a CPU, and returns what describes them.
Json export_for_cpu(const ExportedVariant& v, std::vector<LoweredFunction>& functions) {
  const LoweredProgram& p = *v.lowered.cpu;
  exporting::check_constant_shapes(p.main.sizes);
  Json j = Json::object({{"main", "heddle_kernel_main" + v.suffix}});
  functions.push_back(p.main);
  functions.back().name = "heddle_kernel_main" + v.suffix;
  if (p.prepare.body) {
    j["prepare"] = "heddle_kernel_prepare" + v.suffix;
    functions.push_back(p.prepare);
    functions.back().name = "heddle_kernel_prepare" + v.suffix;
  }
  j["persistent"] = args_to_json(persistent_args(p));
  return j;
}

/// Writes the machine code of a variant for a GPU, and returns what describes it.
Json export_for_gpu(const ExportedVariant& v, const std::string& stem) {
  const GpuProgram& p = *v.lowered.gpu;
  exporting::check_constant_shapes(p.sizes);
  const KernelCode code =
      compile_cuda_code(p, v.lowered.all, v.lowered.listed, v.lowered.schedule.target().gpu);
  Json j = Json::object({{"persistent", args_to_json(code.persistent)}});
  j["gpu"] = exporting::export_program(*code.cuda, stem, v.suffix + ".cubin");
  return j;
}

Json describe(const ExportedVariant& v, const PickRow& pick, Json j) {
  j["name"] = v.name;
  j["args"] = args_to_json(args_of(v.lowered));
  j["code"] = v.lowered.code;
  for (const VariantTimes& t : pick.variants) {
    if (t.name == v.name) j["seconds"] = Json::array_of(t.seconds);
  }
  return j;
}

Json describe(const std::vector<AnswerTolerance>& tolerances) {
  Json list = Json::array();
  for (const AnswerTolerance& t : tolerances) {
    list.push_back(Json::array({t.rtol, t.atol, t.of_largest}));
  }
  return list;
}

void check_raceable(const std::vector<MultiVariant>& variants, const BuildOptions& options) {
  for (const MultiVariant& v : variants) {
    if (!v.schedule) {
      throw_user_error("a function cannot be exported", {}, "export variants that are schedules");
    }
    const Target& target = exporting::exported_target(*v.schedule, options);
    if (target.runs_here()) continue;
    throw_user_error("variants for '" + to_string(target) + "' cannot race on this machine", {},
                     "export on a machine of that kind, or one kernel with export_kernel");
  }
}

/// The members of the description that load_kernel reads: those of the pick.
void describe_pick(Json& j, const ExportedVariant& picked, const Json& described) {
  j["args"] = described.at("args");
  j["persistent"] = described.at("persistent");
  if (const Json* gpu = described.find("gpu")) {
    j["gpu"] = *gpu;
  } else {
    j["features"] = Json::array_of(codegen::code_features(picked.lowered.schedule.target()));
    j["prepares"] = described.contains("prepare");
  }
}

}  // namespace

PickRow export_multi(const std::vector<MultiVariant>& variants, const std::vector<Tensor>& args,
                     const std::string& stem, const BuildOptions& options, double seconds) {
  check_raceable(variants, options);
  const PickRow pick = race(variants, args, options, seconds);
  std::vector<LoweredFunction> functions;
  Target target;
  Json list = Json::array(), j = Json::object({{"name", options.name}});
  for (const ExportedVariant& v : lowered_variants(variants, args, options, pick)) {
    const LoweredVariant& code = v.lowered;
    list.push_back(
        describe(v, pick, code.gpu ? export_for_gpu(v, stem) : export_for_cpu(v, functions)));
    if (v.name != pick.picked) continue;
    target = code.schedule.target();
    j["target"] = to_string(target);
    describe_pick(j, v, list.elements().back());
    j["constants"] = exporting::export_constants(bound_constants(code.all, code.listed), stem);
  }
  HEDDLE_ICHECK(j.contains("args"), "the pick is one of the variants");
  j["variants"] = std::move(list);
  j["picked"] = pick.picked;
  j["tolerances"] = describe(tolerances_of(variants, args));
  j["pick"] = pick.to_json();
  if (!functions.empty()) write_file_atomic(stem + ".o", emit_llvm(functions, target, "o"));
  write_file_atomic(stem + ".json", j.dump(1) + "\n");
  return pick;
}

}  // namespace heddle
