// The files that this process runs: the program and its shared libraries.
#pragma once

#include <link.h>

#include <cstdint>

#include "heddle/support/function_ref.h"

namespace heddle::internal {

/// Calls `visit` with the loaded file that contains this address, if any does.
void visit_loaded_file(std::uintptr_t address, FunctionRef<void(const dl_phdr_info&)> visit);

/// Takes the code and constants of the file that contains this address out of the memory of this
/// process, as far as they were never written to. What is needed again comes from the page cache.
void release_code(std::uintptr_t address);

}  // namespace heddle::internal
