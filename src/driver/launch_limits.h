// The limits beyond which a GPU refuses to launch a kernel.
#pragma once

#include <optional>
#include <string>

#include "heddle/lower/gpu_program.h"
#include "heddle/target/target.h"

namespace heddle::driver {

/// Why a GPU could not launch a kernel of a program.
struct BeyondLimit {
  std::string
      what;  ///< "too many threads: 2048 a block in kernel 'k', at most 1024"; reports count what is before the colon
  std::string help;  ///< what a schedule would do about it
};

/// The first kernel that is beyond a limit, found before it is compiled; nothing where there is none.
std::optional<BeyondLimit> beyond_limit(const GpuProgram& program, const Gpu& gpu);

}  // namespace heddle::driver
