#include "heddle/driver/build.h"

#include <set>

#include "codegen/llvm/jit/object_cache.h"
#include "driver/build_cuda.h"
#include "driver/index_checks.h"
#include "driver/lowered_variant.h"
#include "driver/program_args.h"
#include "heddle/ir/print.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"

namespace heddle {

using namespace driver;
namespace {

// What a kernel keeps so that its text can be generated on request.
struct Source {
  std::vector<LoweredFunction> functions;
  Target target;
};

std::string source_text(const void* context, const std::string& form) {
  const Source& s = *static_cast<const Source*>(context);
  if (form == "loops") {
    std::string out;
    for (const LoweredFunction& f : s.functions) out += to_string(f);
    return out;
  }
  if (form == "llvm") return emit_llvm(s.functions, s.target, "ll");
  if (form == "asm") return emit_llvm(s.functions, s.target, "s");
  throw_user_error("a kernel has no source of the form '" + form + "'", {},
                   "ask for llvm, asm or loops");
}

// The arguments of `main` are those of the kernel, then bound constants, then others.
void mark_only_prepared(KernelCode& code, const LoweredFunction& main) {
  const std::set<const BufferNode*> used = touched_buffers(main.body);
  const auto unread = [&](const KernelArg& arg, size_t position) {
    return arg.constant && used.count(main.args[position].get()) == 0;
  };
  for (size_t i = 0; i < code.args.size(); ++i)
    code.args[i].only_prepared = unread(code.args[i], i);
  for (size_t i = 0; i < code.bound.size(); ++i) {
    KernelArg& arg = code.bound[i].arg;
    arg.only_prepared = used.count(main.args[code.args.size() + i].get()) == 0;
  }
}

}  // namespace

KernelArg driver::describe(const Buffer& b) {
  KernelArg a;
  a.name = b->name;
  a.dtype = b->dtype;
  for (const Expr& e : b->shape) {
    const int64_t* n = as_int(e);
    a.shape.push_back(n ? *n : -1);
  }
  return a;
}

Kernel build(const Schedule& schedule, const std::vector<Tensor>& args,
             const BuildOptions& options) {
  return build_timed(schedule, args, options).kernel;
}

TimedBuild build_timed(const Schedule& schedule, const std::vector<Tensor>& args,
                       const BuildOptions& options) {
  const Timer timer;
  const LoweredVariant lowered = lower_variant(schedule, args, args, options);
  check_sizes_are_given(lowered);
  const double lower_ms = 1e3 * timer.elapsed_s();
  TimedBuild built = compile_variant(lowered, options);
  built.times.lower = lower_ms;
  built.times.total = 1e3 * timer.elapsed_s();
  return built;
}

TimedBuild driver::compile_for_cpu(const LoweredVariant& v, const BuildOptions& options) {
  const Target& target = v.schedule.target();
  const LoweredProgram& program = *v.cpu;
  std::vector<LoweredFunction> functions{program.main};
  if (program.prepare.body) functions.push_back(program.prepare);
  CodegenOptions codegen;
  codegen.opt_level = options.opt_level;
  codegen.disk_cache = options.disk_cache;
  CompiledModule module = compile_llvm(functions, target, codegen);

  KernelCode code;
  code.name = options.name;
  code.args = args_of(v);
  code.sizes = kernel_sizes(program.main.sizes);
  code.bound = bound_constants(v.all, v.listed);
  code.persistent = persistent_args(program);
  code.finite = {v.checks.args, v.checks.slots};
  code.before = index_checks(v.schedule, {v.all.data(), v.listed}, options);
  code.main = module.entries[0];
  if (program.prepare.body) {
    code.prepare = module.entries[1];
    code.prepare_key = codegen::object_key({program.prepare}, target, options.opt_level);
    code.prepared_on_disk = !module.key.empty();
  }
  mark_only_prepared(code, program.main);
  code.code = module.code;
  code.source = source_text;
  // The work of a call depends on its sizes.
  if (code.sizes.empty()) code.work = work_of(v.schedule.dag().direct(), target);
  code.source_context = std::make_shared<Source>(Source{std::move(functions), target});
  BuildTimes times;
  times.llvm_ir = module.times.build_ir;
  times.optimize = module.times.optimize;
  times.codegen = module.times.codegen;
  times.link = module.times.link;
  times.passes = program.passes;
  times.cache = module.cache;
  return {Kernel(std::move(code)), std::move(times)};
}

}  // namespace heddle
