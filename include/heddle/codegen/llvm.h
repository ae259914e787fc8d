// Native code for lowered functions through LLVM's ORC JIT. No LLVM type appears here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/support/disk_cache.h"
#include "heddle/target/target.h"

namespace heddle {

/// Options of code generation by LLVM.
struct CodegenOptions {
  bool keep_llvm_ir = false;   ///< fill CompiledModule::llvm_ir
  bool keep_assembly = false;  ///< fill CompiledModule::assembly (a second run of the backend)
  int opt_level = 1;  ///< 1: mem2reg and a few cheap passes only (the default, for tuning and
                      ///< build); 2: LLVM's O2
  /// Loop nests that this process compiled before, for any program, are not compiled again. It has
  /// no effect where text is kept.
  bool reuse_nests = true;
  /// Looks for the code on the disk, where another process may have left it, and stores new code
  /// there (the folder "code", support/disk_cache.h; at most HEDDLE_CACHE_MB, 1024 MiB). The code
  /// is then compiled as a whole, so no nests are reused. The option has no effect where text is
  /// kept.
  bool disk_cache = false;
};

/// Milliseconds spent in each part of one compilation.
struct CodegenTimes {
  double build_ir = 0, optimize = 0, codegen = 0, link = 0;
};

/// The answer of the cache on the disk for a program.
enum class CacheAnswer {
  NotAsked,
  Found,
  Missing,  ///< compiled, and stored there
  Damaged,  ///< the file was damaged; compiled, and replaced
};

/// Machine code of a module. The entries stay valid while `code` lives. An entry takes one pointer
/// for each argument buffer of its function, in order, and then the sizes of the function, each an
/// i64 in place of a pointer. It returns 0, or a nonzero status when memory for a temporary could
/// not be allocated.
struct CompiledModule {
  using Entry = int (*)(void* const* args);
  std::vector<Entry> entries;  ///< one per function, in order
  std::shared_ptr<void> code;
  std::string llvm_ir, assembly;
  int nests = 0;  ///< nests that can be shared with other programs; 0 for a program of one nest
  int reused_nests = 0;  ///< of these, nests that were compiled before
  CacheAnswer cache = CacheAnswer::NotAsked;
  std::string key;  ///< key of its file in the cache; empty where it has none
  CodegenTimes times;
};

/// Compiles for this machine (`target` may name an older CPU of the same architecture). Functions
/// must be flat: every Load and Store has exactly one index. Thread-safe.
CompiledModule compile_llvm(const std::vector<LoweredFunction>& functions, const Target& target,
                            const CodegenOptions& options = {});

/// Releases the nests that are kept for reuse (up to 64 MiB of code). Kernels keep the code that
/// they need.
void release_code_cache();

/// The cache on the disk that CodegenOptions::disk_cache uses.
DiskCache disk_code_cache();

/// LLVM IR ("ll"), assembly ("s") or an object file ("o") for any target that LLVM knows. Nothing
/// is executed.
std::string emit_llvm(const std::vector<LoweredFunction>& functions, const Target& target,
                      const std::string& format);

/// Links the code of an object file, which emit_llvm gave here or on another machine, into this
/// process. `names` are those of its functions, in order. The caller must trust the object, because
/// it is run as it is. Throws a Runtime error for an object without these functions. Thread-safe.
CompiledModule load_object(const std::string& object, const std::vector<std::string>& names);

/// What a schedule expects code generation to recognise in its loops (StageRef::expect), and what
/// was recognised.
struct ExpectedInstruction {
  std::string buffer;       ///< name of the buffer that the stores write
  std::string instruction;  ///< dot_product or transposed_square
  int stores = 0;           ///< statements that are expected to become the instruction
  int found = 0;            ///< of these, the recognised ones; tails of loops need not be
  bool missed() const { return found == 0; }
};

/// The expectations of all stores in `functions`, by buffer and instruction in their order of
/// appearance. Nothing is optimised or executed. `target` may be any CPU that LLVM knows.
std::vector<ExpectedInstruction> expected_instructions(
    const std::vector<LoweredFunction>& functions, const Target& target);

}  // namespace heddle
