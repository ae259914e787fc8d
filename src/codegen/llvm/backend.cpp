#include "codegen/llvm/backend.h"

#include <cstdlib>

#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Analysis/BasicAliasAnalysis.h"
#include "llvm/Analysis/ScopedNoAliasAA.h"
#include "llvm/Analysis/MemorySSA.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Transforms/Utils/Mem2Reg.h"

namespace heddle::codegen {

namespace {

bool wants_verifier() {
#ifdef NDEBUG
  static const bool wanted = [] {
    const char* value = std::getenv("HEDDLE_VERIFY");
    return value && std::string_view(value) != "0";
  }();
  return wanted;
#else
  return true;
#endif
}

void verify(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (llvm::verifyModule(module, &out)) {
    throw_internal_error("invalid LLVM IR was generated:\n" + out.str() + print(module));
  }
}

// The generator emits final code: what is left is to put the register buffers into SSA form and to
// merge equal address arithmetic. Only the analyses that this takes are made, not a PassBuilder.
void optimize_little(llvm::Module& module, llvm::TargetMachine& tm) {
  std::unique_ptr<llvm::LoopAnalysisManager> loops;
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  analyses.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([&] { return tm.getTargetIRAnalysis(); });
  analyses.registerPass([&] {
    return llvm::TargetLibraryAnalysis(llvm::TargetLibraryInfoImpl(tm.getTargetTriple()));
  });
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass());
  if (getenv("LICM")) {
  analyses.registerPass([] { return llvm::LoopAnalysis(); });
  analyses.registerPass([] { return llvm::MemorySSAAnalysis(); });
  analyses.registerPass([] { return llvm::ScalarEvolutionAnalysis(); });
  analyses.registerPass([] { llvm::AAManager m; m.registerFunctionAnalysis<llvm::BasicAA>(); m.registerFunctionAnalysis<llvm::ScopedNoAliasAA>(); return m; });
  analyses.registerPass([] { return llvm::BasicAA(); });
  analyses.registerPass([] { return llvm::ScopedNoAliasAA(); });
  loops = std::make_unique<llvm::LoopAnalysisManager>();
  loops->registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  analyses.registerPass([&] { return llvm::LoopAnalysisManagerFunctionProxy(*loops); });
  loops->registerPass([&] { return llvm::FunctionAnalysisManagerLoopProxy(analyses); });
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  }
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) passes.run(function, analyses);
  }
}

void optimize_fully(llvm::Module& module, llvm::TargetMachine& tm) {
  // The schedule decides about loops.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.LoopInterleaving = false;
  tuning.LoopUnrolling = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&tm, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

}  // namespace

std::string print(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  return out.str();
}

std::unique_ptr<llvm::Module> build_module(llvm::LLVMContext& context,
                                           const std::vector<LoweredFunction>& functions,
                                           const std::vector<std::string>& names,
                                           const Machine& machine, llvm::TargetMachine& tm) {
  auto module = std::make_unique<llvm::Module>("heddle", context);
  module->setTargetTriple(machine.triple.str());
  module->setDataLayout(tm.createDataLayout());
  Generator generator(*module, machine);
  for (size_t i = 0; i < functions.size(); ++i) generator.add(functions[i], names[i]);
  if (wants_verifier()) verify(*module);
  return module;
}

void optimize(llvm::Module& module, llvm::TargetMachine& tm, int opt_level) {
  if (opt_level >= 2) {
    optimize_fully(module, tm);
  } else {
    optimize_little(module, tm);
  }
}

llvm::SmallVector<char, 0> run_backend(llvm::Module& module, llvm::TargetMachine& tm,
                                       llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> output;
  llvm::raw_svector_ostream stream(output);
  llvm::legacy::PassManager passes;
  const bool impossible = tm.addPassesToEmitFile(passes, stream, nullptr, type, true);
  HEDDLE_ICHECK(!impossible, "LLVM cannot emit this kind of file for " +
                                 tm.getTargetTriple().str());
  passes.run(module);
  return output;
}

}  // namespace heddle::codegen
