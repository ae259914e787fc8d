#include "codegen/llvm/jit/machine.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "heddle/support/error.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "support/edit_distance.h"
#include "target/check_target.h"

namespace heddle::codegen {

namespace {

// Ends the process as its new handler does.
void out_of_memory(void* /*data*/, const char* /*reason*/, bool /*report*/) {
  if (const std::new_handler handler = std::get_new_handler()) handler();
  std::abort();
}

void initialize_native() {
  static const bool done = [] {
    // Where a failed allocation ends the process (a worker's does, with a status that says so), it
    // does so for LLVM, too. Elsewhere LLVM's handler is the program's.
    if (std::get_new_handler() != nullptr) llvm::install_bad_alloc_error_handler(out_of_memory);
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto& options = llvm::cl::getRegisteredOptions();
    auto set = [&](const char* name, const char* value) {
      if (auto it = options.find(name); it != options.end()) {
        it->second->addOccurrence(0, name, value);
      }
    };
    // Region splitting turns loops with more live constants than registers (an inlined exponential)
    // into rotations of a dozen register moves: 24 of 60 instructions of a softmax. Without it the
    // constants that do not fit are reloaded, and allocation is faster.
    set("grow-region-complexity-budget", "0");
    // The machine combiner adds the products of several steps of k before it adds them to the
    // accumulator, to shorten a chain of integer additions of a cycle each. The waiting products
    // need registers, and a tile leaves none: the loop of an int8 convolution got 35 spills.
    set("x86-machine-combiner", "false");
    return true;
  }();
  (void)done;
}

// Initialising all targets takes milliseconds, so it is done only for code of another architecture.
void initialize_all() {
  static const bool done = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    return true;
  }();
  (void)done;
}

// SSE4a stores one float past the caches. Only AMD's CPUs have it, so it would tie the code of all
// loops with such stores to them, for the elements beyond the last vector.
constexpr const char* kNeverUsed = "sse4a";

void turn_off(const char* feature, std::string* features) {
  *features += (features->empty() ? "-" : ",-") + std::string(feature);
}

// For code that this process runs. A hypervisor may hide features of a CPU, and a CPU of the same
// level may lack some that generated code rarely needs. Target knows the others.
void turn_off_what_this_machine_lacks(const llvm::MCSubtargetInfo& subtarget,
                                      std::string* features) {
  static const llvm::StringMap<bool> here = llvm::sys::getHostCPUFeatures();
  for (const llvm::SubtargetFeatureKV& feature : subtarget.getAllProcessorFeatures()) {
    const auto found = here.find(feature.Key);
    if (found != here.end() && !found->second && subtarget.getFeatureBits()[feature.Value])
      turn_off(feature.Key, features);
  }
}

/// Asks LLVM for the registers and masks that there are, and the table for the instructions.
void ask_features(const llvm::MCSubtargetInfo& subtarget, Machine* machine) {
  Machine& m = *machine;
  if (m.x86) {
    m.avx = subtarget.checkFeatures("+avx");
    m.avx2 = subtarget.checkFeatures("+avx2") && subtarget.checkFeatures("+fma");
    m.avx512 = m.avx2 && subtarget.checkFeatures("+avx512f,+avx512vl,+avx512bw,+avx512dq");
  }
  m.vbmi = m.avx512 && subtarget.checkFeatures("+avx512vbmi");
  const auto add_forms = [&](const MachineInstruction& x, auto& to) {
    for (const InstructionForm& form : x.forms)
      if (x.legal(m.target, form)) to.push_back(&form);
  };
  for (const MachineInstruction& dot : dot_instructions()) add_forms(dot, m.dots);
  // LLVM supports the tile registers in 64-bit programs only.
  if (m.triple.isArch64Bit()) add_forms(amx_instruction(), m.tiles);
}

}  // namespace

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Machine& machine, int opt_level) {
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(machine.triple.str(), error);
  if (!target) {
    throw_user_error("LLVM has no backend for '" + machine.triple.str() + "': " + error);
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  options.NoTrappingFPMath = true;
  std::unique_ptr<llvm::TargetMachine> tm(target->createTargetMachine(
      machine.triple.str(), machine.cpu, machine.features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small,
      opt_level >= 2 ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::Less));
  if (!tm) throw_user_error("LLVM cannot generate code for '" + machine.triple.str() + "'");
  // No FastISel: it saves a tenth of the time (3.0 against 3.3 ms for a 6x16 tile) but selects a
  // product and the sum that uses it one by one, so that some multiply-adds are never formed.
  return tm;
}

Machine describe_machine(const Target& target, bool for_jit) {
  struct Known {
    Target target;
    bool for_jit;
    Machine machine;
  };
  // Asking LLVM is slow, and a search compiles for one target thousands of times.
  thread_local std::vector<Known> cache;
  for (const Known& known : cache) {
    if (known.target == target && known.for_jit == for_jit) return known.machine;
  }
  internal::check_target(target);
  initialize_native();
  Machine machine;
  machine.target = target;
  const llvm::Triple host(llvm::sys::getProcessTriple());
  machine.triple = target.triple.empty() ? host : llvm::Triple(target.triple);
  const bool foreign = machine.triple.getArch() != host.getArch();
  if (for_jit && (foreign || !(target == Target::host() || target.runs_here()))) {
    throw_user_error("code for the target '" + to_string(target) +
                         "' does not run on this machine (" + to_string(Target::host()) + ")",
                     {}, "export it (export_kernel), or build it for the host");
  }
  if (foreign) initialize_all();
  const bool native = target.mcpu == "native";
  machine.cpu = native ? llvm::sys::getHostCPUName().str() : target.mcpu;
  machine.features = target.features;
  machine.x86 = machine.triple.isX86();
  if (machine.x86) turn_off(kNeverUsed, &machine.features);

  std::unique_ptr<llvm::TargetMachine> tm = make_target_machine(machine, 1);
  const llvm::MCSubtargetInfo& subtarget = *tm->getMCSubtargetInfo();
  if (for_jit && machine.x86) turn_off_what_this_machine_lacks(subtarget, &machine.features);
  if (!native && !subtarget.isCPUStringValid(machine.cpu)) {
    const std::vector<std::string> known = known_cpus();
    const std::string guess = did_you_mean(machine.cpu, known);
    throw_user_error("LLVM does not know the CPU '" + machine.cpu + "' of " + machine.triple.str(),
                     {},
                     std::find(known.begin(), known.end(), machine.cpu) != known.end()
                         ? "it is one of another architecture: name its triple, or another CPU"
                     : guess.empty() ? "known_cpus() lists those that Target::parse knows"
                                     : guess);
  }
  ask_features(subtarget, &machine);
  const int widest = machine.avx512 ? 64 : machine.avx ? 32 : machine.x86 ? 16 : 256;
  machine.vector_bytes = std::min(target.vector_bytes, widest);
  cache.push_back({target, for_jit, machine});
  return machine;
}

llvm::TargetMachine& thread_target_machine(const Machine& machine, int opt_level) {
  struct Entry {
    Machine machine;
    int opt_level;
    std::unique_ptr<llvm::TargetMachine> tm;
  };
  thread_local std::vector<Entry> cache;
  for (Entry& entry : cache) {
    if (entry.machine == machine && entry.opt_level == opt_level) return *entry.tm;
  }
  cache.push_back({machine, opt_level, make_target_machine(machine, opt_level)});
  return *cache.back().tm;
}

}  // namespace heddle::codegen
