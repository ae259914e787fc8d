// The parts of arguments that a call writes, checked against its sizes.
#pragma once

#include <span>
#include <string>

#include "heddle/runtime/kernel.h"
#include "runtime/program/places.h"

namespace heddle {

/// Throws a Runtime error where a call of `name` with these sizes writes rows that its argument does
/// not have.
void check_views(const std::string& name, std::span<const KernelArg> args,
                 std::span<const ProgramView> views, std::span<const int64_t> sizes);

}  // namespace heddle
