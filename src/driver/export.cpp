// Kernels as object files. One kernel is written as several variants are: as a list of one.
#include "heddle/driver/export.h"

#include <algorithm>

#include "codegen/code_features.h"
#include "driver/build_cuda.h"
#include "driver/build_variants.h"
#include "driver/program_args.h"
#include "heddle/dag/instance.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "runtime/cuda/program_json.h"
#include "runtime/kernel/arg_json.h"
#include "support/files/file.h"

namespace heddle {

using namespace driver;
namespace {

constexpr const char* kOnly = "kernel";  // the variant that export_kernel writes

/// A variant in the form in which it is written.
struct ExportedVariant {
  std::string name, suffix;  ///< the suffix of its symbols; none for the pick
  LoweredVariant lowered;
  std::string code;                  ///< its key
  std::vector<double> seconds = {};  ///< in the race
};

void check_exportable(const Schedule& schedule, const BuildOptions& options) {
  (void)target_of(schedule, options);
  if (!options.check_finite && !options.check_indices) return;
  throw_user_error("a kernel with checks of its arguments cannot be exported", {},
                   "leave BuildOptions::check_finite and check_indices out; build() has them");
}

/// Adds the functions of a variant for a CPU to `functions`, and what describes them to `j`.
void add_functions(const ExportedVariant& v, std::vector<LoweredFunction>& functions, Json& j) {
  const LoweredProgram& p = *v.lowered.cpu;
  j["persistent"] = args_to_json(persistent_args(p));
  j["main"] = "heddle_kernel_main" + v.suffix;
  functions.push_back(p.main);
  functions.back().name = j.at("main").as_string();
  if (!p.prepare.body) return;
  j["prepare"] = "heddle_kernel_prepare" + v.suffix;
  functions.push_back(p.prepare);
  functions.back().name = j.at("prepare").as_string();
}

/// Writes the machine code of a variant for a GPU, and adds what describes it to `j`.
void write_program(const ExportedVariant& v, const std::string& stem, Json& j) {
  const KernelCode code = compile_cuda_code(*v.lowered.gpu, v.lowered.all, v.lowered.listed,
                                            v.lowered.schedule.target().gpu, v.lowered.in_part);
  j["persistent"] = args_to_json(code.persistent);
  j["gpu"] = cuda::to_json(*code.cuda);
  j["file"] = v.suffix + ".cubin";  // appended to the stem, which may change
  write_file_atomic(stem + v.suffix + ".cubin", code.cuda->cubin);
}

/// Writes each constant into a file of its own beside `stem`.
Json write_constants(const std::vector<BoundConstant>& constants, const std::string& stem) {
  Json list = Json::array();
  for (size_t i = 0; i < constants.size(); ++i) {
    const std::string ending = ".constant" + std::to_string(i) + ".npy";
    constants[i].array.save(stem + ending);
    Json j = arg_to_json(constants[i].arg);
    j["file"] = ending;
    list.push_back(std::move(j));
  }
  return list;
}

/// Writes code and constants, and then the description that load_kernel reads: `j` and the variants.
void write(const std::vector<ExportedVariant>& variants, const std::string& stem, Json j) {
  const LoweredVariant& first = variants[0].lowered;
  const Target& target = first.schedule.target();
  std::vector<LoweredFunction> functions;
  Json list = Json::array();
  for (const ExportedVariant& v : variants) {
    Json of_variant = Json::object({{"name", v.name}, {"code", v.code}});
    of_variant["args"] = args_to_json(args_of(v.lowered));
    if (!v.seconds.empty()) of_variant["seconds"] = Json::array_of(v.seconds);
    if (v.lowered.gpu) {
      write_program(v, stem, of_variant);
    } else {
      add_functions(v, functions, of_variant);
    }
    list.push_back(std::move(of_variant));
  }
  j["target"] = to_string(target);
  if (!target.is_cuda()) j["features"] = Json::array_of(codegen::code_features(target));
  j["sizes"] = Json::array();
  for (const KernelSize& s : kernel_sizes(first.gpu ? first.gpu->sizes : first.cpu->main.sizes))
    j["sizes"].push_back(Json::object({{"name", s.name}, {"lo", s.lo}, {"hi", s.hi}}));
  j["constants"] = write_constants(bound_constants(first.all, first.listed), stem);
  j["variants"] = std::move(list);
  if (!functions.empty()) write_file_atomic(stem + ".o", emit_llvm(functions, target, "o"));
  write_file_atomic(stem + ".json", j.dump(1) + "\n");
}

void check_raceable(const std::vector<MultiVariant>& variants, const BuildOptions& options) {
  for (const MultiVariant& v : variants) {
    if (!v.schedule) {
      throw_user_error("a function cannot be exported", {}, "export variants that are schedules");
    }
    check_exportable(*v.schedule, options);
    if (const std::vector<Var> sizes = sizes_of(v.schedule->dag().outputs()); !sizes.empty()) {
      throw_user_error(
          "dimension '" + sizes[0]->name + "' has no constant size, and variants race at one size",
          {}, "export the declaration at one size: at_sizes (dag/instance.h)");
    }
    if (v.schedule->target().runs_here()) continue;
    throw_user_error(
        "variants for '" + to_string(v.schedule->target()) + "' cannot race on this machine", {},
        "export on a machine of that kind, or one kernel with export_kernel");
  }
}

PickRow race(const std::vector<MultiVariant>& variants, const std::vector<Tensor>& args,
             const BuildOptions& build, double seconds) {
  MultiOptions options;
  options.build = build;
  options.pick.store = nullptr;
  options.pick.seconds = seconds;
  return pick_on_random_inputs(build_multi(variants, args, options));
}

Json to_json(const std::vector<AnswerTolerance>& tolerances) {
  Json list = Json::array();
  for (const AnswerTolerance& t : tolerances)
    list.push_back(Json::array({t.rtol, t.atol, t.of_largest}));
  return list;
}

}  // namespace

void export_kernel(const Schedule& schedule, const std::vector<Tensor>& args,
                   const std::string& stem, const BuildOptions& options) {
  check_exportable(schedule, options);
  const LoweredVariant lowered = lower_variant(schedule, args, args, options);
  check_sizes_are_given(lowered);
  write({{kOnly, "", lowered, code_of(lowered, options)}}, stem,
        Json::object({{"name", options.name}, {"picked", kOnly}}));
}

PickRow export_multi(const std::vector<MultiVariant>& variants, const std::vector<Tensor>& args,
                     const std::string& stem, const BuildOptions& options, double seconds) {
  check_raceable(variants, options);
  const PickRow pick = race(variants, args, options, seconds);
  std::vector<ExportedVariant> written;
  for (size_t i = 0; i < variants.size(); ++i) {
    const std::string name = variant_name(variants[i], i);
    // The row does not contain variants that were dropped or whose code equals that of another one.
    const auto row = std::find_if(pick.variants.begin(), pick.variants.end(),
                                  [&](const VariantTimes& v) { return v.name == name; });
    if (row == pick.variants.end() || !row->dropped.empty()) continue;
    LoweredVariant lowered =
        lower_variant(*variants[i].schedule, own_args(variants[i], args), args, options);
    std::string code = code_of(lowered, options);
    written.push_back({name, name == pick.picked ? "" : "_" + std::to_string(i), std::move(lowered),
                       std::move(code), row->seconds});
  }
  Json j = Json::object({{"name", options.name}, {"picked", pick.picked}});
  j["tolerances"] = to_json(tolerances_of(variants, args));
  j["pick"] = pick.to_json();
  write(written, stem, std::move(j));
  return pick;
}

}  // namespace heddle
