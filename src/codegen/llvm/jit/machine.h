// The properties of a machine that the generator and the backend use: LLVM's target and the
// features that decide how code is emitted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/instruction/instruction.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

namespace heddle::codegen {

struct Machine {
  Target target;  ///< that it was resolved from
  llvm::Triple triple;
  std::string cpu, features;
  bool x86 = false;
  bool avx = false;       ///< masked f32/f64 loads and 32-byte registers
  bool avx2 = false;      ///< the same for integers
  bool avx512 = false;    ///< F, VL, BW and DQ: masks for every type, 64-byte registers
  bool vbmi = false;      ///< AVX-512 VBMI: vpmultishiftqb
  int vector_bytes = 16;  ///< bytes of the widest register
  /// The forms of dot_instructions() and of amx_instruction() that it has.
  std::vector<const InstructionForm*> dots, tiles;

  bool operator==(const Machine& o) const {
    return triple == o.triple && cpu == o.cpu && features == o.features;
  }
};

/// Resolves `target`. `for_jit` demands that this machine can run the code: a user error otherwise.
Machine describe_machine(const Target& target, bool for_jit);

/// A new backend for `machine`; throws a user error when LLVM does not know the target.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Machine& machine, int opt_level);

/// This thread's backend for `machine`. It is kept, because making one costs as much as compiling a
/// small kernel.
llvm::TargetMachine& thread_target_machine(const Machine& machine, int opt_level);

}  // namespace heddle::codegen
