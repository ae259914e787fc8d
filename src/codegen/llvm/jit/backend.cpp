#include "codegen/llvm/jit/backend.h"

#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/BasicAliasAnalysis.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/MemorySSA.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScopedNoAliasAA.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Utils/Mem2Reg.h"
#include "support/environment.h"

namespace heddle::codegen {

namespace {

bool wants_verifier() {
#ifdef NDEBUG
  static const bool wanted = [] {
    const std::string value = internal::environment_value("HEDDLE_VERIFY");
    return !value.empty() && value != "0";
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

// The generator emits nearly final code. The remaining passes put register buffers into SSA form,
// merge equal address arithmetic, and move invariant code out of loops, accumulators in memory
// included. The last pass makes a naive matrix product 2 to 3 times faster and takes 0.1 ms. Only
// the analyses that these passes need are registered, because a PassBuilder registers a hundred.
void optimize_little(llvm::Module& module, llvm::TargetMachine& tm) {
  llvm::LoopAnalysisManager loops;  // outlives `functions`, whose proxy clears it
  llvm::FunctionAnalysisManager functions;
  functions.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  functions.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  functions.registerPass([] { return llvm::AssumptionAnalysis(); });
  functions.registerPass([&] { return tm.getTargetIRAnalysis(); });
  functions.registerPass([&] {
    return llvm::TargetLibraryAnalysis(llvm::TargetLibraryInfoImpl(tm.getTargetTriple()));
  });
  functions.registerPass([] { return llvm::BasicAA(); });
  functions.registerPass([] { return llvm::ScopedNoAliasAA(); });
  functions.registerPass([] {
    llvm::AAManager manager;
    manager.registerFunctionAnalysis<llvm::BasicAA>();
    manager.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
    return manager;
  });
  functions.registerPass([] { return llvm::LoopAnalysis(); });
  functions.registerPass([] { return llvm::MemorySSAAnalysis(); });
  functions.registerPass([] { return llvm::ScalarEvolutionAnalysis(); });
  functions.registerPass([&] { return llvm::LoopAnalysisManagerFunctionProxy(loops); });
  loops.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  loops.registerPass([&] { return llvm::FunctionAnalysisManagerLoopProxy(functions); });

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) passes.run(function, functions);
  }
}

void optimize_fully(llvm::Module& module, llvm::TargetMachine& tm) {
  // Unrolling and vectorisation are decided by the schedule.
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

// Leaves out the pass that moves arithmetic on integers into mask registers. It compares all parts
// of a function with each other, which takes minutes where tails have many branches, and finds
// nothing in code whose masks come from the schedule.
class PassGate : public llvm::OptPassGate {
 public:
  bool shouldRunPass(const llvm::StringRef pass, llvm::StringRef) override {
    return pass != "X86 Domain Reassignment Pass";
  }
  bool isEnabled() const override { return true; }
};

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
                                           const Machine& machine, llvm::TargetMachine& tm,
                                           const NestCalls& calls) {
  static PassGate gate;
  context.setOptPassGate(gate);
  auto module = std::make_unique<llvm::Module>("heddle", context);
  module->setTargetTriple(machine.triple.str());
  module->setDataLayout(tm.createDataLayout());
  Generator generator(*module, machine, calls);
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
  HEDDLE_ICHECK(!impossible,
                "LLVM cannot emit this kind of file for " + tm.getTargetTriple().str());
  passes.run(module);
  return output;
}

}  // namespace heddle::codegen
