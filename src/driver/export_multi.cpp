#include <algorithm>

#include "codegen/code_features.h"
#include "driver/build_variants.h"
#include "driver/export_parts.h"
#include "driver/program_args.h"
#include "heddle/driver/export.h"
#include "heddle/support/error.h"
#include "heddle/support/file.h"

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

Json describe(const ExportedVariant& v, const PickRow& pick) {
  const LoweredProgram& p = *v.lowered.cpu;
  exporting::check_constant_shapes(p);
  Json j = Json::object({{"name", v.name}, {"main", "heddle_kernel_main" + v.suffix}});
  if (p.prepare.body) j["prepare"] = "heddle_kernel_prepare" + v.suffix;
  j["args"] = exporting::to_json(args_of(v.lowered));
  j["persistent"] = exporting::to_json(persistent_args(p));
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

}  // namespace

PickRow export_multi(const std::vector<MultiVariant>& variants, const std::vector<Tensor>& args,
                     const std::string& stem, const BuildOptions& options, double seconds) {
  for (const MultiVariant& v : variants) {
    if (!v.schedule) {
      throw_user_error("a function cannot be exported", {}, "export variants that are schedules");
    }
    const Target& target = exporting::exported_target(*v.schedule, options);
    if (target.is_cuda()) {
      throw_user_error("variants for a GPU cannot be exported", {},
                       "export one kernel with export_kernel");
    }
    if (target.runs_here()) continue;
    throw_user_error("variants for '" + to_string(target) + "' cannot race on this machine", {},
                     "export on a machine of that kind, or one kernel with export_kernel");
  }
  const PickRow pick = race(variants, args, options, seconds);
  const std::vector<ExportedVariant> lowered = lowered_variants(variants, args, options, pick);
  std::vector<LoweredFunction> functions;
  Json list = Json::array();
  const ExportedVariant* picked = nullptr;
  for (const ExportedVariant& v : lowered) {
    if (v.name == pick.picked) picked = &v;
    functions.push_back(v.lowered.cpu->main);
    functions.back().name = "heddle_kernel_main" + v.suffix;
    if (v.lowered.cpu->prepare.body) {
      functions.push_back(v.lowered.cpu->prepare);
      functions.back().name = "heddle_kernel_prepare" + v.suffix;
    }
    list.push_back(describe(v, pick));
  }
  HEDDLE_ICHECK(picked != nullptr, "the pick is one of the variants");
  const LoweredVariant& code = picked->lowered;
  const Target& target = code.schedule.target();
  Json j = Json::object({{"name", options.name}, {"target", to_string(target)}});
  j["features"] = Json::array_of(codegen::code_features(target));
  j["prepares"] = static_cast<bool>(code.cpu->prepare.body);
  j["args"] = exporting::to_json(args_of(code));
  j["constants"] = exporting::export_constants(bound_constants(code.all, code.listed), stem);
  j["persistent"] = exporting::to_json(persistent_args(*code.cpu));
  j["variants"] = std::move(list);
  j["picked"] = pick.picked;
  j["tolerances"] = describe(tolerances_of(variants, args));
  j["pick"] = pick.to_json();
  write_file_atomic(stem + ".o", emit_llvm(functions, target, "o"));
  write_file_atomic(stem + ".json", j.dump(1) + "\n");
  return pick;
}

}  // namespace heddle
