// The description of an exported kernel as JSON, shared by export_kernel and export_multi.
#pragma once

#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/support/json.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::exporting {

/// Writes each constant into a file of its own beside `stem`.
Json export_constants(const std::vector<BoundConstant>& constants, const std::string& stem);

/// Writes the machine code to the file `stem` + `ending`, and returns the rest of the program.
Json export_program(const cuda::Program& program, const std::string& stem,
                    const std::string& ending = ".cubin");

/// Throws a User error where a lowered program has `sizes`: its extents are symbolic then.
void check_constant_shapes(const std::vector<Var>& sizes);

/// The target of the schedule. Throws a User error for options that cannot be exported.
const Target& exported_target(const Schedule& schedule, const BuildOptions& options);

}  // namespace heddle::exporting
