// heddle export: writes a subject's kernel as an object file, or a model as a library, for programs
// without a compiler.
#include "heddle/driver/export.h"

#include <filesystem>
#include <iostream>

#include "commands.h"
#include "common/figures.h"
#include "common/model_plan.h"
#include "common/output_file.h"
#include "common/variants.h"
#include "heddle/network/export_network.h"
#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"
#include "subjects/family_subject.h"
#include "subjects/model_subject.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {

namespace {

void check_raceable(const Target& target) {
  if (target.runs_here()) return;
  std::string why = ", and the target is '" + to_string(target) + "'";
  if (target.is_cuda()) {
    const std::string none = cuda::unavailable_reason();
    why += none.empty() ? ", which the GPU of this machine does not run" : ": " + none;
  }
  throw_user_error("--variants needs a machine that runs the kernels" + why, {},
                   "leave --variants out, or export on a machine of that kind");
}

void print_race(const PickRow& pick) {
  Table table({"variant", "time", ""});
  table.align_left(2);
  for (const VariantTimes& v : pick.variants) {
    table.add_row({v.name, v.seconds.empty() ? "" : format_time(v.median()),
                   v.name == pick.picked ? "picked" : v.dropped});
  }
  std::cout << table.to_string();
  if (!pick.note.empty()) std::cout << pick.note << "\n";
}

/// The schedule for each task of a model, found by races here on random inputs.
std::vector<Schedule> raced_schedules(const Request& o, const Network& network) {
  std::vector<Schedule> schedules;
  for (const TuneTask& task : network.tasks()) {
    const std::vector<MultiVariant> variants =
        variants_of(task.tmpl.dag().outputs(), task.tmpl.target(), o.variants, task.tmpl.options());
    MultiOptions options;
    options.build.name = task.name;
    options.pick.store = nullptr;
    options.pick.seconds = o.race_seconds;
    const PickRow pick = pick_on_random_inputs(build_multi(variants, task.args, options));
    std::cout << task.name << ": " << pick.picked << " of " << pick.variants.size();
    if (pick.speedup_over_static() > 0) {
      std::cout << ", " << ratio(pick.speedup_over_static()) << " of the first one";
    }
    std::cout << "\n";
    for (const MultiVariant& v : variants) {
      if (v.name == pick.picked) schedules.push_back(*v.schedule);
    }
  }
  return schedules;
}

/// Writes a library of the declaration of `outputs`. `arg_names`: as in ExportNetworkOptions.
int export_library(const Request& o, const Target& target, const std::string& name,
                   const std::vector<Tensor>& outputs, const std::vector<Tensor>& args,
                   const std::vector<std::string>& arg_names, const Updates& updates = {}) {
  const Network network = model_network(o, outputs, target, updates);
  ExportNetworkOptions options{
      .name = name, .arg_names = arg_names, .check_weights = !o.no_weights_check};
  if (o.variants > 1) {
    check_raceable(target);
    options.schedules = raced_schedules(o, network);
  }
  const ExportedNetwork written = export_network(network, args, o.output, options);
  std::cout
      << written.library << ", " << written.library_bytes << " bytes: " << written.steps
      << " steps for " << to_string(target) << "\n"
      << written.weights << ", " << written.weights_bytes << " bytes, mapped when it is opened\n"
      << written.header << ": " << name << "_open, " << name << "_run, "
      << (target.is_cuda() ? name + "_run_on_gpu, " : "") << name << "_close\n"
      << "a call needs " << written.arena_bytes << " bytes for what passes between steps\n"
      << "to call it from C, where neither Heddle nor a compiler of kernels is needed any more:\n"
      << "  cc program.c -I" << shell_word(o.output) << " -L" << shell_word(o.output) << " -l"
      << name << " -Wl,-rpath," << shell_word(o.output) << " -o program\n";
  return 0;
}

int export_model(const Request& o, const Target& target) {
  const OnnxModel model = import_subject(o.subject, dtype_of(o.dtype));
  return export_library(o, target, identifier_of(model.path), model.outputs, model.args(),
                        model.arg_names(), model.updates);
}

int export_family(const Request& o, const Target& target) {
  const FamilySubject f = family_subject(o.subject, dtype_of(o.dtype));
  std::vector<Tensor> outputs;
  for (const Tensor& t : f.args) {
    if (t.op()->is_constant())
      throw_user_error("a library contains its constants, and '" + t.name() + "' of '" + o.subject +
                           "' has no values",
                       {}, "export a model, or call export_network with constant(array)");
    if (!t.op()->is_placeholder()) outputs.push_back(t);
  }
  return export_library(o, target, identifier_of(o.subject.substr(0, o.subject.find(':'))), outputs,
                        f.args, {});
}

/// The file of the kernel's code.
std::string code_file(const Request& o, const Target& target) {
  return o.output + (target.is_cuda() ? ".cubin" : ".o");
}

void print_files(const Request& o, const Problem& problem, const Target& target) {
  const std::string code = code_file(o, target);
  std::cout << code << ", " << std::filesystem::file_size(code) << " bytes, and " << o.output
            << ".json: " << problem.subject << " for " << to_string(target) << "\n";
}

/// The command that makes a library of the code. The code of a GPU needs none.
std::string link_line(const Request& o, const Target& target) {
  if (target.is_cuda()) return "";
  return "  c++ -shared -o " + shell_word(o.output + ".so") + " " + shell_word(o.output + ".o") +
         " -lmvec -lm\n";
}

int export_variants(const Request& o, const Problem& problem, const Target& target) {
  check_raceable(target);
  const PickRow pick =
      export_multi(variants_of(problem.outputs, target, o.variants), problem.args(), o.output,
                   {.name = problem.subject}, o.race_seconds);
  print_files(o, problem, target);
  print_race(pick);
  std::cout << "to call the pick, or one of the others, from C++, where no compiler is needed any "
               "more:\n"
            << link_line(o, target) << "  heddle::Kernel kernel = heddle::load_kernel(\""
            << o.output << "\");\n"
            << "  heddle::MultiKernel all = heddle::load_multi_kernel(\"" << o.output
            << "\");  // heddle/runtime/load_kernel.h\n";
  return 0;
}

}  // namespace

int run_export(const Request& o) {
  const Target target = target_of(o.target, o.threads);
  if (is_model(o.subject)) return export_model(o, target);
  if (o.tolerance >= 0 || !o.data.empty() || !o.types_json.empty())
    throw_user_error("--tolerance, --data and --types-json are for an ONNX file, and '" +
                         o.subject + "' is none",
                     {}, "leave them out");
  if (is_family(o.subject)) return export_family(o, target);
  const Problem problem = make_problem(o.subject, dtype_of(o.dtype));
  for (const std::string& file : {code_file(o, target), o.output + ".json"}) check_writable(file);
  if (o.variants > 1) return export_variants(o, problem, target);
  const Schedule schedule = create_schedule(problem.outputs, target);
  export_kernel(schedule, problem.args(), o.output, {.name = problem.subject});

  print_files(o, problem, target);
  std::cout << "schedule: " << schedule.provenance << "\n"
            << "to call it from C++, where no compiler is needed any more:\n"
            << link_line(o, target) << "  heddle::Kernel kernel = heddle::load_kernel(\""
            << o.output << "\");  // heddle/runtime/load_kernel.h\n";
  return 0;
}

}  // namespace heddle::cli
