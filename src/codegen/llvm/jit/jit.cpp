// compile_llvm. The process has one ORC session, because making one costs more than compiling an
// empty function. Each module is an object under a resource tracker of its own, removed with it.
#include <atomic>
#include <chrono>
#include <map>

#include "codegen/llvm/generator.h"
#include "codegen/llvm/jit/backend.h"
#include "codegen/llvm/jit/code_cache.h"
#include "codegen/llvm/jit/object_cache.h"
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
#include "support/out_of_memory.h"

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

  /// Names must be unique in the process, because code may refer to that of other modules.
  Loaded load(llvm::SmallVector<char, 0> object, const std::vector<std::string>& names) {
    orc::ResourceTrackerSP tracker = library_->createResourceTracker();
    // From here on the last owner of the tracker removes its code.
    std::shared_ptr<void> code(tracker.get(), [tracker](void*) {
      if (llvm::Error error = tracker->remove()) llvm::consumeError(std::move(error));
    });
    return link(*library_, tracker, std::move(code), std::move(object), names);
  }

  /// A module with a name space of its own, which sees nothing but the runtime.
  Loaded load_apart(llvm::SmallVector<char, 0> object, const std::vector<std::string>& names) {
    static std::atomic<uint64_t> modules{0};
    orc::JITDylib* apart =
        &session_->createBareJITDylib("heddle.apart." + std::to_string(modules++));
    std::shared_ptr<void> code(apart, [this](void* library) {
      if (llvm::Error error = session_->removeJITDylib(*static_cast<orc::JITDylib*>(library)))
        llvm::consumeError(std::move(error));
    });
    apart->addToLinkOrder(*library_);
    return link(*apart, apart->getDefaultResourceTracker(), std::move(code), std::move(object),
                names);
  }

 private:
  Loaded link(orc::JITDylib& library, const orc::ResourceTrackerSP& tracker,
              std::shared_ptr<void> code, llvm::SmallVector<char, 0> object,
              const std::vector<std::string>& names) {
    auto buffer = std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), "heddle",
                                                                  /*RequiresNullTerminator=*/false);
    unwrap(layer_->add(tracker, std::move(buffer)), "adding generated code");
    orc::SymbolLookupSet wanted;
    std::vector<orc::SymbolStringPtr> symbols;
    for (const std::string& name : names) {
      symbols.push_back(session_->intern(name));
      wanted.add(symbols.back());
    }
    out_of_memory_ = false;
    llvm::Expected<orc::SymbolMap> linked = session_->lookup(
        {{&library, orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
    if (!linked && out_of_memory_) {
      llvm::consumeError(linked.takeError());
      throw internal::OutOfMemory("out of memory while generated code was linked");
    }
    orc::SymbolMap found = unwrap(std::move(linked), "linking generated code");
    Loaded loaded;
    for (const orc::SymbolStringPtr& symbol : symbols) {
      loaded.entries.push_back(found[symbol].getAddress().toPtr<CompiledModule::Entry>());
    }
    loaded.code = std::move(code);
    return loaded;
  }

  Session() {
    codegen::libmvec();
    auto control = unwrap(orc::SelfExecutorProcessControl::Create(), "starting the JIT");
    const char prefix = llvm::Triple(control->getTargetTriple()).isOSDarwin() ? '_' : '\0';
    session_ = std::make_unique<orc::ExecutionSession>(std::move(control));
    session_->setErrorReporter([](llvm::Error error) {
      // The lookup fails, too, and throws. Only here is the cause known.
      llvm::handleAllErrors(std::move(error), [](const llvm::ErrorInfoBase& cause) {
        if (cause.convertToErrorCode() == std::errc::not_enough_memory) out_of_memory_ = true;
      });
    });
    layer_ = std::make_unique<orc::ObjectLinkingLayer>(*session_);
    library_ = &session_->createBareJITDylib("heddle");
    // The runtime's functions are given by address, because dlsym does not find them when Heddle
    // itself was loaded privately.
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

  /// An error without memory was reported in the link of this thread, which does all of it.
  static thread_local bool out_of_memory_;
  std::unique_ptr<orc::ExecutionSession> session_;
  std::unique_ptr<orc::ObjectLinkingLayer> layer_;
  orc::JITDylib* library_ = nullptr;
};

thread_local bool Session::out_of_memory_ = false;

constexpr std::size_t kCachedCode = std::size_t{64} << 20;

codegen::CodeCache& code_cache() {
  static codegen::CodeCache* const cache =
      new codegen::CodeCache(kCachedCode);  // never destroyed, as the session
  return *cache;
}

// The nests of a program: those to compile with it, and the functions that it calls for all of
// them. Reused code must outlive the program.
struct Nests {
  std::vector<LoweredFunction> functions;
  std::vector<std::string> symbols;
  std::vector<CanonicalKey> keys;
  codegen::NestCalls calls;
  std::vector<std::shared_ptr<void>> code;
  int count = 0;
};

Nests find_nests(const std::vector<LoweredFunction>& functions, const std::string& prefix,
                 const Machine& machine, int opt_level) {
  std::vector<codegen::Nest> all = codegen::outermost_nests(functions);
  Nests out;
  out.count = static_cast<int>(all.size());
  std::map<CanonicalKey, std::string> own;
  for (codegen::Nest& nest : all) {
    const auto key = codegen::code_key(nest.form.key, machine, opt_level);
    std::string symbol;
    if (auto here = own.find(key); here != own.end()) {
      symbol = here->second;
    } else if (auto known = code_cache().find(key)) {
      symbol = known->symbol;
      out.code.push_back(std::move(known->code));
    } else {
      symbol = prefix + "nest" + std::to_string(out.functions.size());
      out.functions.push_back({symbol, nest.form.buffers, nest.stmt});
      out.symbols.push_back(symbol);
      out.keys.push_back(key);
      own.emplace(key, symbol);
    }
    out.calls[nest.stmt.get()] = {std::move(symbol), std::move(nest.form.buffers)};
  }
  return out;
}

template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

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

struct Request {
  const std::vector<LoweredFunction>& functions;
  const Machine& machine;
  llvm::TargetMachine& tm;
  const CodegenOptions& options;
};

// Compiles for this process and calls the nests that it has compiled before.
CompiledModule compile_here(const Request& request, Stopwatch& watch) {
  const CodegenOptions& options = request.options;
  // All modules of the process share one name space.
  static std::atomic<uint64_t> modules{0};
  const std::string prefix = "heddle." + std::to_string(modules++) + ".";
  std::vector<std::string> names;
  for (const LoweredFunction& function : request.functions) {
    names.push_back(prefix + std::to_string(names.size()) + "." + function.name);
  }
  Nests nests;
  if (options.reuse_nests && !options.keep_llvm_ir && !options.keep_assembly) {
    nests = find_nests(request.functions, prefix, request.machine, options.opt_level);
  }
  CompiledModule result;
  llvm::LLVMContext context;
  // Functions precede their callers, because LLVM gives a name to its first user.
  std::unique_ptr<llvm::Module> module =
      codegen::build_module(context, joined(nests.functions, request.functions),
                            joined(nests.symbols, names), request.machine, request.tm, nests.calls);
  result.times.build_ir = watch.lap();
  codegen::optimize(*module, request.tm, options.opt_level);
  result.times.optimize = watch.lap();
  if (options.keep_llvm_ir) result.llvm_ir = codegen::print(*module);
  if (options.keep_assembly) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*module);
    const auto text = codegen::run_backend(*copy, request.tm, llvm::CodeGenFileType::AssemblyFile);
    result.assembly.assign(text.begin(), text.end());
  }
  watch.lap();
  auto object = codegen::run_backend(*module, request.tm, llvm::CodeGenFileType::ObjectFile);
  const std::size_t bytes = object.size();
  result.times.codegen = watch.lap();
  Session::Loaded loaded = Session::get().load(std::move(object), names);
  for (size_t i = 0; i < nests.keys.size(); ++i) {
    code_cache().insert(nests.keys[i], {nests.symbols[i], loaded.code}, bytes / nests.keys.size());
  }
  result.nests = nests.count;
  result.reused_nests = nests.count - static_cast<int>(nests.keys.size());
  result.entries = std::move(loaded.entries);
  nests.code.push_back(std::move(loaded.code));
  result.code = std::make_shared<std::vector<std::shared_ptr<void>>>(std::move(nests.code));
  result.times.link = watch.lap();
  return result;
}

// Takes the object file from the disk, or compiles it and writes it there.
CompiledModule compile_for_disk(const Request& request, const std::string& key, Stopwatch& watch) {
  // The names are the same in each process, and do not depend on the names of the program.
  std::vector<std::string> names;
  while (names.size() < request.functions.size())
    names.push_back("heddle." + std::to_string(names.size()));
  const DiskCache cache = disk_code_cache();
  DiskCache::Answer known = cache.load(key);
  CompiledModule result;
  llvm::SmallVector<char, 0> object;
  if (known.content) {
    result.cache = CacheAnswer::Found;
    object.assign(known.content->begin(), known.content->end());
    result.times.build_ir = watch.lap();
  } else {
    result.cache = known.damaged ? CacheAnswer::Damaged : CacheAnswer::Missing;
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module =
        codegen::build_module(context, request.functions, names, request.machine, request.tm);
    result.times.build_ir = watch.lap();
    codegen::optimize(*module, request.tm, request.options.opt_level);
    result.times.optimize = watch.lap();
    object = codegen::run_backend(*module, request.tm, llvm::CodeGenFileType::ObjectFile);
    cache.store(key, std::string(object.begin(), object.end()));
    result.times.codegen = watch.lap();
  }
  Session::Loaded loaded = Session::get().load_apart(std::move(object), names);
  result.entries = std::move(loaded.entries);
  result.code = std::move(loaded.code);
  result.times.link = watch.lap();
  return result;
}

}  // namespace

CompiledModule compile_llvm(const std::vector<LoweredFunction>& functions, const Target& target,
                            const CodegenOptions& options) {
  if (options.opt_level != 1 && options.opt_level != 2)
    throw_user_error("opt_level is " + std::to_string(options.opt_level), {},
                     "1, a few cheap passes, or 2, LLVM's O2");
  Stopwatch watch;
  const Machine machine = codegen::describe_machine(target, /*for_jit=*/true);
  llvm::TargetMachine& tm = codegen::thread_target_machine(machine, options.opt_level);
  const std::vector<LoweredFunction> all = codegen::split_lanes(functions, machine.vector_bytes);
  const Request request{all, machine, tm, options};
  if (options.disk_cache && !options.keep_llvm_ir && !options.keep_assembly &&
      !cache_folder("code").empty()) {
    const std::string key = codegen::object_key(all, target, options.opt_level);
    if (!key.empty()) {
      CompiledModule module = compile_for_disk(request, key, watch);
      module.key = key;
      return module;
    }
  }
  return compile_here(request, watch);
}

CompiledModule load_object(const std::string& object, const std::vector<std::string>& names) {
  // The linker aborts the process for some input that is not an object file.
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  if (!object.starts_with(kElf)) throw_runtime_error("the code to be linked is no object file");
  llvm::SmallVector<char, 0> bytes(object.begin(), object.end());
  try {
    Session::Loaded loaded = Session::get().load_apart(std::move(bytes), names);
    CompiledModule result;
    result.entries = std::move(loaded.entries);
    result.code = std::move(loaded.code);
    return result;
  } catch (const Error& e) {
    throw_runtime_error("an object file cannot be linked: " + e.message);
  }
}

void release_code_cache() { code_cache().clear(); }

}  // namespace heddle
