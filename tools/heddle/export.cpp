// heddle export: a subject's kernel as an object file, a model as a library, for programs without a
// compiler.
#include "heddle/driver/export.h"

#include <cctype>
#include <filesystem>
#include <iostream>

#include "commands.h"
#include "common/output_file.h"
#include "heddle/network/export_network.h"
#include "subjects/model_subject.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"

namespace heddle::cli {

namespace {

/// The file's name without its ending, as a name of C: "bert-base.onnx" is bert_base.
std::string name_of(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  for (char& c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9')) c = '_';
  }
  const bool begins_well = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0;
  return begins_well ? name : "model_" + name;
}

int export_model(const ExportOptions& o, const Target& target) {
  const OnnxModel model = import_subject(o.subject, dtype_of(o.dtype));
  const std::string name = name_of(model.path);
  const ExportedNetwork written =
      export_network(Network(model.outputs, target), model.args(), o.output, {.name = name});
  std::cout
      << written.library << ", " << written.library_bytes << " bytes: " << written.steps
      << " steps for " << to_string(target) << "\n"
      << written.weights << ", " << written.weights_bytes << " bytes, mapped when it is opened\n"
      << written.header << ": " << name << "_open, " << name << "_run, " << name << "_close\n"
      << "a call needs " << written.arena_bytes << " bytes for what passes between steps\n"
      << "to call it from C, where neither Heddle nor a compiler of kernels is needed any more:\n"
      << "  cc program.c -I" << o.output << " -L" << o.output << " -l" << name
      << " -Wl,-rpath,'$ORIGIN'\n";
  return 0;
}

}  // namespace

int run_export(const ExportOptions& o) {
  const Target target = target_of(o.target, o.threads);
  if (is_model(o.subject)) return export_model(o, target);
  const Problem problem = make_problem(o.subject, dtype_of(o.dtype));
  for (const char* suffix : {".o", ".json"}) check_writable(o.output + suffix);
  const Schedule schedule = create_schedule(problem.outputs, target);
  export_kernel(schedule, problem.args(), o.output, {.name = problem.subject});

  std::cout << o.output << ".o, " << std::filesystem::file_size(o.output + ".o") << " bytes, and "
            << o.output << ".json: " << problem.subject << " for " << to_string(schedule.target())
            << "\n"
            << "schedule: " << schedule.provenance << "\n"
            << "to call it from C++, where no compiler is needed any more:\n"
            << "  c++ -shared -o " << o.output << ".so " << o.output << ".o -lmvec -lm\n"
            << "  heddle::Kernel kernel = heddle::load_kernel(\"" << o.output
            << "\");  // heddle/runtime/load_kernel.h\n";
  return 0;
}

}  // namespace heddle::cli
