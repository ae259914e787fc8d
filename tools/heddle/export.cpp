// heddle export: a subject's kernel as an object file, for programs without a compiler.
#include "heddle/driver/export.h"

#include <filesystem>
#include <iostream>

#include "commands.h"
#include "common/output_file.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"

namespace heddle::cli {

int run_export(const ExportOptions& o) {
  const Target target = target_of(o.target, o.threads);
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
