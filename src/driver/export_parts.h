// The description of an exported kernel as JSON, shared by export_kernel and export_multi.
#pragma once

#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/support/json.h"

namespace heddle::exporting {

Json to_json(const std::vector<KernelArg>& args);

/// Writes each constant into a file of its own beside `stem`.
Json export_constants(const std::vector<BoundConstant>& constants, const std::string& stem);

/// Throws a User error where extents are symbolic.
void check_constant_shapes(const LoweredProgram& program);

/// The target of the schedule. Throws a User error for options that cannot be exported.
const Target& exported_target(const Schedule& schedule, const BuildOptions& options);

}  // namespace heddle::exporting
