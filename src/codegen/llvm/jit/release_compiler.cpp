#include "codegen/release_compiler.h"

#include <malloc.h>

#include <cstdint>

#include "llvm-c/Core.h"
#include "support/files/loaded_file.h"

namespace heddle::codegen {

void release_compiler() {
  ::malloc_trim(0);
  internal::release_code(reinterpret_cast<std::uintptr_t>(&LLVMContextCreate));
}

}  // namespace heddle::codegen
