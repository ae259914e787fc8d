// compile_llvm. One ORC session for the process: making one costs more than compiling an empty
// function. Each module is an object under a resource tracker of its own, removed with it.
#include <atomic>
#include <chrono>

#include "codegen/llvm/backend.h"
#include "codegen/llvm/math_library.h"
#include "heddle/codegen/llvm.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/workspace.h"
#include "heddle/support/error.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace heddle {

namespace {

using codegen::Machine;
namespace orc = llvm::orc;

template <class T>
T unwrap(llvm::Expected<T> value, const char* what) {
  if (value) return std::move(*value);
  throw_internal_error(std::string(what) + ": " + llvm::toString(value.takeError()));
}

void unwrap(llvm::Error error, const char* what) {
  if (error) throw_internal_error(std::string(what) + ": " + llvm::toString(std::move(error)));
}

class Session {
 public:
  // Never destroyed: modules held in the user's static objects may be freed after it.
  static Session& get() {
    static Session* const session = new Session;
    return *session;
  }

  struct Loaded {
    std::vector<CompiledModule::Entry> entries;
    std::shared_ptr<void> code;
  };

  Loaded load(llvm::SmallVector<char, 0> object, const std::vector<std::string>& names) {
    orc::ResourceTrackerSP tracker = library_->createResourceTracker();
    // Whatever happens from here on, the tracker's code goes away with its last owner.
    std::shared_ptr<void> code(tracker.get(), [tracker](void*) {
      if (llvm::Error error = tracker->remove()) llvm::consumeError(std::move(error));
    });
    auto buffer = std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), "heddle",
                                                                  /*RequiresNullTerminator=*/false);
    unwrap(layer_->add(tracker, std::move(buffer)), "adding generated code");
    orc::SymbolLookupSet wanted;
    std::vector<orc::SymbolStringPtr> symbols;
    for (const std::string& name : names) {
      symbols.push_back(session_->intern(name));
      wanted.add(symbols.back());
    }
    orc::SymbolMap found =
        unwrap(session_->lookup({{library_, orc::JITDylibLookupFlags::MatchAllSymbols}},
                                std::move(wanted)),
               "linking generated code");
    Loaded loaded;
    for (const orc::SymbolStringPtr& symbol : symbols) {
      loaded.entries.push_back(found[symbol].getAddress().toPtr<CompiledModule::Entry>());
    }
    loaded.code = std::move(code);
    return loaded;
  }

 private:
  Session() {
    codegen::libmvec();
    auto control = unwrap(orc::SelfExecutorProcessControl::Create(), "starting the JIT");
    const char prefix = llvm::Triple(control->getTargetTriple()).isOSDarwin() ? '_' : '\0';
    session_ = std::make_unique<orc::ExecutionSession>(std::move(control));
    session_->setErrorReporter([](llvm::Error error) {
      // The same error also reaches the lookup that fails, which throws it.
      llvm::consumeError(std::move(error));
    });
    layer_ = std::make_unique<orc::ObjectLinkingLayer>(*session_);
    library_ = &session_->createBareJITDylib("heddle");
    // By address: these need not be visible to dlsym when Heddle itself was loaded privately.
    orc::SymbolMap runtime;
    auto define = [&](const char* name, auto* function) {
      runtime[session_->intern(name)] = {
          orc::ExecutorAddr::fromPtr(function),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    define("heddle_parallel_for", &heddle_parallel_for);
    define("heddle_workspace_alloc", &heddle_workspace_alloc);
    define("heddle_workspace_free", &heddle_workspace_free);
    unwrap(library_->define(orc::absoluteSymbols(std::move(runtime))), "defining the runtime");
    library_->addGenerator(unwrap(orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(prefix),
                                  "looking at the process's symbols"));
  }

  std::unique_ptr<orc::ExecutionSession> session_;
  std::unique_ptr<orc::ObjectLinkingLayer> layer_;
  orc::JITDylib* library_ = nullptr;
};

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

CompiledModule compile_llvm(const std::vector<LoweredFunction>& functions, const Target& target,
                            const CodegenOptions& options) {
  Stopwatch watch;
  const Machine machine = codegen::describe_machine(target, /*for_jit=*/true);
  llvm::TargetMachine& tm = codegen::thread_target_machine(machine, options.opt_level);
  // One name space for all modules of the process.
  static std::atomic<uint64_t> modules{0};
  const std::string prefix = "heddle." + std::to_string(modules++) + ".";
  std::vector<std::string> names;
  for (const LoweredFunction& function : functions) {
    names.push_back(prefix + std::to_string(names.size()) + "." + function.name);
  }
  CompiledModule result;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      codegen::build_module(context, functions, names, machine, tm);
  result.times.build_ir = watch.lap();
  codegen::optimize(*module, tm, options.opt_level);
  result.times.optimize = watch.lap();
  if (options.keep_llvm_ir) result.llvm_ir = codegen::print(*module);
  if (options.keep_assembly) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*module);
    const auto text = codegen::run_backend(*copy, tm, llvm::CodeGenFileType::AssemblyFile);
    result.assembly.assign(text.begin(), text.end());
  }
  watch.lap();
  auto object = codegen::run_backend(*module, tm, llvm::CodeGenFileType::ObjectFile);
  result.times.codegen = watch.lap();
  Session::Loaded loaded = Session::get().load(std::move(object), names);
  result.entries = std::move(loaded.entries);
  result.code = std::move(loaded.code);
  result.times.link = watch.lap();
  return result;
}

}  // namespace heddle
