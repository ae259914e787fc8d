// emit_llvm: LLVM IR, assembly or an object file for any machine that LLVM supports.
#include "codegen/llvm/generator.h"
#include "codegen/llvm/jit/backend.h"
#include "codegen/why_expected.h"
#include "heddle/codegen/llvm.h"
#include "heddle/support/error.h"

namespace heddle {

std::string emit_llvm(const std::vector<LoweredFunction>& functions, const Target& target,
                      const std::string& format) {
  if (format != "ll" && format != "s" && format != "o") {
    throw_user_error("unknown format '" + format + "' of generated code", {},
                     "use 'll' (LLVM IR), 's' (assembly) or 'o' (object file)");
  }
  constexpr int kOptLevel = 1;
  const codegen::Machine machine = codegen::describe_machine(target, /*for_jit=*/false);
  llvm::TargetMachine& tm = codegen::thread_target_machine(machine, kOptLevel);
  std::vector<std::string> names;
  for (const LoweredFunction& function : functions) names.push_back(function.name);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = codegen::build_module(
      context, codegen::split_lanes(functions, machine.vector_bytes), names, machine, tm);
  codegen::optimize(*module, tm, kOptLevel);
  if (format == "ll") return codegen::print(*module);
  const auto output = codegen::run_backend(
      *module, tm,
      format == "s" ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile);
  return std::string(output.begin(), output.end());
}

namespace {

// Calls `read` with what generated the functions, of which nothing is optimised.
template <class Read>
auto after_generating(const std::vector<LoweredFunction>& functions, const Target& target,
                      Read read) {
  const codegen::Machine machine = codegen::describe_machine(target, /*for_jit=*/false);
  llvm::LLVMContext context;
  llvm::Module module("heddle", context);
  module.setTargetTriple(machine.triple.str());
  module.setDataLayout(codegen::thread_target_machine(machine, 1).createDataLayout());
  const codegen::NestCalls no_calls;
  codegen::Generator generator(module, machine, no_calls);
  for (const LoweredFunction& f : codegen::split_lanes(functions, machine.vector_bytes))
    generator.add(f, f.name);
  return read(generator);
}

}  // namespace

std::vector<ExpectedInstruction> expected_instructions(
    const std::vector<LoweredFunction>& functions, const Target& target) {
  return after_generating(functions, target, [](const auto& g) { return g.expected(); });
}

std::vector<std::string> codegen::why_not_expected(const std::vector<LoweredFunction>& functions,
                                                   const Target& target) {
  return after_generating(functions, target, [](const auto& g) { return g.why_missed(); });
}

}  // namespace heddle
