// From LLVM IR to machine code: the passes and the object file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/llvm/jit/machine.h"
#include "codegen/llvm/nests.h"
#include "heddle/codegen/llvm.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"

namespace heddle::codegen {

/// The LLVM IR of `functions` (see split_lanes), in `context`. The name of function i is
/// `names[i]`. The nests in `calls` are functions of their own, in this module or another one.
std::unique_ptr<llvm::Module> build_module(llvm::LLVMContext& context,
                                           const std::vector<LoweredFunction>& functions,
                                           const std::vector<std::string>& names,
                                           const Machine& machine, llvm::TargetMachine& tm,
                                           const NestCalls& calls = {});

void optimize(llvm::Module& module, llvm::TargetMachine& tm, int opt_level);

/// Runs the backend. It changes `module`, which can be used once only.
llvm::SmallVector<char, 0> run_backend(llvm::Module& module, llvm::TargetMachine& tm,
                                       llvm::CodeGenFileType type);

std::string print(const llvm::Module& module);

}  // namespace heddle::codegen
