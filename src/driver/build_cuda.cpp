#include "driver/build_cuda.h"

#include <algorithm>
#include <optional>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "driver/index_checks.h"
#include "driver/launch_limits.h"
#include "driver/lowered_variant.h"
#include "driver/program_args.h"
#include "heddle/codegen/cuda.h"
#include "heddle/ir/simplify.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::driver {
namespace {

struct Source {
  std::shared_ptr<const GpuProgram> program;
};

std::string source_text(const void* context, const std::string& form) {
  const Source& s = *static_cast<const Source*>(context);
  if (form == "cuda" || form == "llvm") return emit_cuda(*s.program);  // "llvm" is the default form
  if (form == "loops") return to_string(*s.program);
  throw_user_error("a kernel for a GPU has no source of the form '" + form + "'", {},
                   "ask for cuda or loops");
}

// Whether `b` holds tickets. They are zeroed once, and each launch leaves them zero.
bool is_tickets(const GpuProgram& p, const Buffer& b) {
  for (const auto* list : {&p.prepare, &p.main}) {
    for (const GpuKernel& k : *list) {
      if (k.tickets == b) return true;
    }
  }
  return false;
}

// The position of a buffer in cuda::Launch::buffers: arguments, persistent buffers, the report of
// checks, workspaces.
int position(const GpuProgram& p, const Buffer& report, const Buffer& b) {
  const std::vector<Buffer> reports(report ? 1 : 0, report);
  int at = 0;
  for (const auto* list : {&p.args, &p.persistent, &reports, &p.workspace}) {
    for (const Buffer& x : *list) {
      if (x == b) return at;
      ++at;
    }
  }
  throw_internal_error("kernel argument '" + b->name + "' is no buffer of the program");
}

cuda::SizeExpr::Op size_op(BinaryOp op) {
  using Op = cuda::SizeExpr::Op;
  switch (op) {
    case BinaryOp::Add: return Op::Add;
    case BinaryOp::Sub: return Op::Sub;
    case BinaryOp::Mul: return Op::Mul;
    case BinaryOp::FloorDiv: return Op::FloorDiv;
    case BinaryOp::FloorMod: return Op::FloorMod;
    case BinaryOp::Min: return Op::Min;
    case BinaryOp::Max: return Op::Max;
    default: throw_internal_error("an extent is no sum, product or quotient of sizes");
  }
}

int position(const std::vector<Var>& sizes, const VarNode* v) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].get() == v) return static_cast<int>(i);
  }
  throw_internal_error("'" + v->name + "' is no size of the program");
}

// Operands precede their operator.
void add_items(const Expr& e, const std::vector<Var>& sizes, cuda::SizeExpr* out) {
  using Op = cuda::SizeExpr::Op;
  if (const int64_t* n = as_int(e)) {
    out->items.push_back({Op::Constant, *n});
  } else if (const VarNode* v = e.as<VarNode>()) {
    out->items.push_back({Op::Size, position(sizes, v)});
  } else {
    const Binary* b = e.as<Binary>();
    HEDDLE_ICHECK(b, "an extent is no expression of sizes");
    add_items(b->a, sizes, out);
    add_items(b->b, sizes, out);
    out->items.push_back({size_op(b->op), 0});
  }
}

// The extents of a call, and the largest ones.
void add_shape(const std::vector<Expr>& shape, const std::vector<Var>& sizes,
               cuda::TensorMap* map) {
  for (const Expr& e : shape) map->shape.push_back(largest_extent(e));
  if (std::none_of(shape.begin(), shape.end(), is_symbolic)) return;
  for (const Expr& e : shape) add_items(simplify(e), sizes, &map->shape_of.emplace_back());
}

std::vector<cuda::Launch> launches(const GpuProgram& p, const Buffer& report,
                                   const std::vector<GpuKernel>& kernels) {
  std::vector<cuda::Launch> out;
  for (const GpuKernel& k : kernels) {
    cuda::Launch l;
    l.kernel = k.name;
    for (size_t d = 0; d < 3; ++d) {
      l.grid[d] = static_cast<unsigned>(k.grid[d]);
      l.block[d] = static_cast<unsigned>(k.block[d]);
    }
    l.cluster = static_cast<unsigned>(k.cluster * k.pair);
    l.dynamic_smem = static_cast<unsigned>(k.shared_bytes);
    l.overlaps = k.overlaps;
    for (size_t d = 0; d < 3; ++d) {
      if (k.grid_of[d].defined()) add_items(k.grid_of[d], p.sizes, &l.grid_of[d]);
    }
    for (const Var& v : k.sizes) l.sizes.push_back(position(p.sizes, v.get()));
    for (const Buffer& b : k.args) l.buffers.push_back(position(p, report, b));
    for (const GpuKernel::TensorMap& m : k.maps) {
      cuda::TensorMap map{
          position(p, report, m.source), m.source->dtype.bytes(), {}, m.row_dim, m.rows};
      add_shape(m.source->shape, p.sizes, &map);
      for (const WindowDim& w : m.windows) map.windows.push_back({w.points, w.stride, w.first});
      l.maps.push_back(std::move(map));
    }
    out.push_back(std::move(l));
  }
  return out;
}

// The description of a buffer whose extents may be symbolic, at the largest sizes.
int64_t most_elements(const Buffer& b) {
  int64_t n = 1;
  for (const Expr& e : b->shape) n *= largest_extent(e);
  return n;
}

// Checks limits beyond which the GPU would refuse the launch.
void check_limits(const GpuProgram& p, const Gpu& gpu) {
  if (const std::optional<BeyondLimit> found = beyond_limit(p, gpu))
    throw_user_error(found->what, {}, found->help);
}

/// Returns an empty cubin for a program without launches, of which no output has an element.
cuda::Cubin compile_checked(const GpuProgram& p, const Gpu& gpu) {
  check_limits(p, gpu);
  if (p.main.empty() && p.prepare.empty()) return {};
  return cuda::compile_cuda(emit_cuda(p), gpu.arch);
}

}  // namespace

std::vector<KernelArg> cuda_kernel_args(const std::vector<Tensor>& all, size_t listed,
                                        const std::vector<int>& constant_args,
                                        const std::vector<Var>& sizes) {
  std::vector<KernelArg> args = kernel_args(all, listed, constant_args, sizes);
  for (KernelArg& a : args) a.alignment = 16;  // what the text counts on (codegen/cuda.h)
  return args;
}

KernelCode cuda_kernel_code(const GpuProgram& p, const std::vector<Tensor>& all, size_t listed,
                            cuda::Cubin cubin, const lowering::FiniteChecks& checks,
                            const std::vector<int>& in_part) {
  auto program = std::make_shared<cuda::Program>();
  program->arch = cubin.arch;
  program->cubin = std::move(cubin.bytes);
  for (const Buffer& b : p.workspace)
    program->workspaces.push_back({most_elements(b) * b->dtype.bytes(), is_tickets(p, b)});
  program->launches = launches(p, checks.report, p.main);
  program->prepare = launches(p, checks.report, p.prepare);
  program->in_part = in_part;

  KernelCode code;
  code.name = p.name;
  code.args = cuda_kernel_args(all, listed, p.constant_args, p.sizes);
  code.sizes = kernel_sizes(p.sizes);
  code.bound = bound_constants(all, listed);
  for (const Buffer& b : p.persistent) code.persistent.push_back(describe(b));
  code.finite = {checks.args, checks.slots};
  code.cuda = std::move(program);
  return code;
}

KernelCode compile_cuda_code(const Schedule& schedule, const std::vector<Tensor>& args,
                             const BuildOptions& options, std::vector<Var>* sizes) {
  const std::vector<Tensor> all = with_bound(schedule, args);
  const GpuProgram program = lower_for_gpu(schedule, all, options);
  *sizes = program.sizes;
  return compile_cuda_code(program, all, args.size(), schedule.target().gpu);
}

namespace {

TimedBuild compile_program(const std::shared_ptr<const GpuProgram>& program, const Gpu& gpu,
                           const std::vector<Tensor>& all, size_t listed,
                           const lowering::FiniteChecks& checks, const std::vector<int>& in_part,
                           FunctionRef<void(KernelCode&)> complete) {
  const Timer timer;
  const GpuProgram& p = *program;
  cuda::Cubin cubin = compile_checked(p, gpu);
  const CacheAnswer cache = cubin.bytes.empty() ? CacheAnswer::NotAsked
                            : cubin.cached      ? CacheAnswer::Found
                                                : CacheAnswer::Missing;
  KernelCode code = cuda_kernel_code(p, all, listed, std::move(cubin), checks, in_part);
  complete(code);
  code.source = source_text;
  code.source_context = std::make_shared<Source>(Source{program});
  BuildTimes times;
  times.cache = cache;
  times.codegen = 1e3 * timer.elapsed_s();
  times.total = times.codegen;
  return {Kernel(std::move(code)), std::move(times)};
}

}  // namespace

KernelCode compile_cuda_code(const GpuProgram& program, const std::vector<Tensor>& all,
                             size_t listed, const Gpu& gpu, const std::vector<int>& in_part) {
  return cuda_kernel_code(program, all, listed, compile_checked(program, gpu), {}, in_part);
}

TimedBuild compile_for_gpu(const LoweredVariant& v, const BuildOptions& options) {
  const Schedule& schedule = v.schedule;
  TimedBuild built = compile_program(
      v.gpu, schedule.target().gpu, v.all, v.listed, v.checks, v.in_part, [&](KernelCode& code) {
        code.work = work_of(schedule.dag().direct(), schedule.target());
        code.before = index_checks(schedule, {v.all.data(), v.listed}, options);
      });
  for (const GpuPassRecord& r : v.gpu->passes) built.times.passes.push_back({r.name, r.ms, {}, {}});
  return built;
}

TimedBuild compile_joined_program(const std::shared_ptr<const GpuProgram>& program, const Gpu& gpu,
                                  const std::vector<Tensor>& all, KernelWork work) {
  return compile_program(program, gpu, all, all.size(), {}, {},
                         [&](KernelCode& code) { code.work = std::move(work); });
}

}  // namespace heddle::driver
