#include "driver/program_args.h"

#include <algorithm>

#include "driver/build_cuda.h"
#include "heddle/instruction/instruction.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "schedule/steps/schedule_state.h"
#include "target/check_target.h"

namespace heddle::driver {
namespace {

// Whether code for one target is code for the other. Code does not depend on the threads and caches
// of a CPU.
bool same_code(const Target& a, const Target& b) {
  if (a.kind != b.kind) return false;
  if (a.is_cuda()) return a.gpu.arch == b.gpu.arch;
  return a.mcpu == b.mcpu && a.triple == b.triple && a.features == b.features &&
         a.vector_bytes == b.vector_bytes;
}

void check_asked(const Target& own, const Target& asked) {
  internal::check_target(asked);
  if (same_code(own, asked)) return;
  throw_user_error("the schedule is for '" + to_string(own) + "', and BuildOptions::target is '" +
                       to_string(asked) + "'",
                   {},
                   "leave BuildOptions::target out; make the schedule for that target, "
                   "create_schedule({C}, target) or Schedule({C}, target); or build "
                   "schedule.for_target(target)");
}

void check_loops(const Schedule& schedule) {
  for (const AxisState& axis : schedule.state().axes) {
    if (!axis.defined || !axis.is_leaf()) continue;
    if (!is_block(axis.loop) && !is_thread(axis.loop)) continue;
    throw_user_error("loop '" + axis.name + "' is bound to " + to_string(axis.loop) +
                         ", and the schedule is for '" + to_string(schedule.target()) + "'",
                     {}, "make it for a GPU: Schedule({C}, Target::cuda())");
  }
}

}  // namespace

const Target& target_of(const Schedule& schedule, const BuildOptions& options) {
  if (options.target) check_asked(schedule.target(), *options.target);
  if (!schedule.target().is_cuda()) check_loops(schedule);
  return schedule.target();
}

std::vector<Tensor> with_bound(const Schedule& schedule, const std::vector<Tensor>& listed) {
  std::vector<Tensor> all = listed;
  for (const Tensor& t : schedule.dag().direct().placeholders()) {
    const bool given =
        std::any_of(listed.begin(), listed.end(), [&](const Tensor& l) { return l.same_as(t); });
    if (!given && t.op()->data() != nullptr) all.push_back(t);
  }
  return all;
}

LoweredProgram lower_for_build(const Schedule& schedule, const std::vector<Tensor>& args,
                               const BuildOptions& options) {
  LowerOptions lower_options;
  lower_options.name = options.name;
  lower_options.max_unroll = options.max_unroll;
  return lower(schedule, args, lower_options);
}

namespace {

/// A C identifier for functions of CUDA. The kernel's own name may be "matmul:8x8x8".
std::string identifier_of(std::string name) {
  for (char& c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9')) c = '_';
  }
  const bool digit_first = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return name.empty() || digit_first ? "kernel_" + name : name;
}

}  // namespace

GpuProgram lower_for_gpu(const Schedule& schedule, const std::vector<Tensor>& args,
                         const BuildOptions& options) {
  LowerOptions lower_options;
  lower_options.name = identifier_of(options.name);
  lower_options.max_unroll = options.max_unroll;
  return lower_gpu(schedule, args, lower_options);
}

std::vector<Tensor> declared_args(const ComputeDag& dag) {
  std::vector<Tensor> args = dag.placeholders();
  args.insert(args.end(), dag.outputs().begin(), dag.outputs().end());
  return args;
}

bool uses_tiles(const Schedule& schedule) {
  return std::ranges::any_of(schedule.steps(), [](const Step& step) {
    return step.kind == StepKind::Tensorize &&
           (step.instruction.empty() || step.instruction == amx_instruction().name);
  });
}

void check_lowers(const Schedule& schedule) {
  const std::vector<Tensor> args = declared_args(schedule.dag().direct());
  if (schedule.target().is_cuda()) {
    (void)lower_for_gpu(schedule, args, {});
    return;
  }
  if (uses_tiles(schedule) && !schedule.target().has("amx-tile"))
    throw_user_error("its steps use a matrix unit, which this CPU does not have");
  (void)lower(schedule, args);
}

std::vector<KernelArg> kernel_args(const std::vector<Tensor>& all, size_t listed,
                                   const std::vector<int>& constant_args,
                                   const std::vector<Var>& sizes) {
  std::vector<KernelArg> out;
  for (size_t i = 0; i < listed; ++i) {
    KernelArg a =
        describe(all[i].buffer());  // an alternative may give the argument other dimensions
    a.output = !all[i].op()->is_placeholder();
    a.constant = std::find(constant_args.begin(), constant_args.end(), static_cast<int>(i)) !=
                 constant_args.end();
    a.symbolic = symbolic_extents(all[i].shape(), sizes);
    out.push_back(std::move(a));
  }
  return out;
}

std::vector<SymbolicExtent> symbolic_extents(const Shape& shape, const std::vector<Var>& sizes) {
  std::vector<SymbolicExtent> out;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (as_int(shape[d])) continue;
    const std::optional<Affine> sum = as_affine(shape[d]);
    HEDDLE_ICHECK(sum.has_value(), "a symbolic extent is a sum of sizes");
    SymbolicExtent e{static_cast<int>(d), sum->constant, {}};
    for (const Affine::Term& t : sum->terms) {
      const auto at =
          std::find_if(sizes.begin(), sizes.end(), [&](const Var& v) { return v.same_as(t.var); });
      HEDDLE_ICHECK(at != sizes.end(), "the size '" + t.var->name + "' is none of the program's");
      e.terms.push_back({static_cast<int>(at - sizes.begin()), t.coefficient});
    }
    out.push_back(std::move(e));
  }
  return out;
}

std::vector<KernelSize> kernel_sizes(const std::vector<Var>& sizes) {
  std::vector<KernelSize> out;
  for (const Var& v : sizes) out.push_back({v->name, v->size->lo, v->size->hi});
  return out;
}

std::vector<BoundConstant> bound_constants(const std::vector<Tensor>& all, size_t listed) {
  std::vector<BoundConstant> out;
  for (size_t i = listed; i < all.size(); ++i) {
    KernelArg a = describe(all[i].buffer());
    a.constant = true;
    out.push_back({std::move(a), *all[i].op()->data()});
  }
  return out;
}

std::set<const BufferNode*> touched_buffers(const Stmt& body) {
  std::set<const BufferNode*> all;
  visit(
      body,
      [&](const Stmt& s) {
        if (const Store* store = s.as<Store>()) all.insert(store->buffer.get());
        if (const Prefetch* fetch = s.as<Prefetch>()) all.insert(fetch->buffer.get());
      },
      [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) all.insert(load->buffer.get());
      });
  return all;
}

std::vector<KernelArg> persistent_args(const LoweredProgram& program) {
  std::vector<KernelArg> out;
  for (const Buffer& b : program.persistent) out.push_back(describe(b));
  return out;
}

}  // namespace heddle::driver
