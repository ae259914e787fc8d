// Targets and types as they are typed.
#pragma once

#include <string>

#include "heddle/support/dtype.h"
#include "heddle/target/target.h"

namespace heddle::cli {

/// "f32" -> f32; what is no type is a User error.
DataType dtype_of(const std::string& name);
/// As --target and --threads say; 0 threads: as the target does.
Target target_of(const std::string& text, int threads);

}  // namespace heddle::cli
