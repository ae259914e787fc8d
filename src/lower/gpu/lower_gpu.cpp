// The whole pipeline from a schedule to GPU kernels, top to bottom. Order matters where a comment
// says so.

#include "heddle/instruction/instruction.h"
#include "heddle/ir/simplify.h"
#include "heddle/lower/lower.h"
#include "heddle/support/error.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/memory/join_kernels.h"
#include "lower/gpu/threads/kernel_nests.h"
#include "lower/lower_to_nest.h"
#include "lower/passes.h"
#include "lower/record_pass.h"

namespace heddle {

using namespace lowering;
namespace {

using namespace gpu;

void check_options(const Schedule& schedule, const LowerOptions& options) {
  if (!schedule.target().is_cuda()) {
    throw_user_error(
        "the schedule is for '" + to_string(schedule.target()) + "', and that is no GPU", {},
        "make it for one: create_schedule({C}, Target::cuda()), or "
        "Schedule({C}, Target::cuda())");
  }
  if (options.max_unroll != 0) {
    throw_user_error("max_unroll says nothing about a GPU", {}, "leave it 0");
  }
}

// Instructions that steps name are those of the GPU.
void check_instructions(const Schedule& schedule) {
  const Target& target = schedule.target();
  for (const Step& step : schedule.steps()) {
    if (step.kind != StepKind::Tensorize || step.instruction.empty()) continue;
    const auto named = find_instruction(step.instruction);
    if (named && named->is_of(target)) continue;
    throw_user_error("target '" + to_string(target) + "' has no instruction '" + step.instruction +
                         "', which tensorize() names",
                     step.where, "name one that it has, or choose the schedule for this target");
  }
}

void check(const Schedule& schedule, const LowerOptions& options) {
  check_options(schedule, options);
  check_instructions(schedule);
}

// Runs passes over all kernels of a program and records the result and the time of each.
class Pipeline {
 public:
  Pipeline(GpuProgram* program, const LowerOptions& options)
      : program_(program), options_(options) {}

  void run(const std::string& name, FunctionRef<Stmt(const Stmt&)> pass) {
    run_on_kernels(name, [&](GpuKernel& k) {
      k.body = pass(k.body);
      if (k.tail) k.tail = pass(k.tail);
    });
  }

  void run_shaped(const std::string& name,
                  FunctionRef<Stmt(const Stmt&, const LaunchShape&)> pass) {
    run_on_kernels(name, [&](GpuKernel& k) {
      const LaunchShape shape = shape_of(k);
      k.body = pass(k.body, shape);
      if (k.tail) k.tail = pass(k.tail, shape);
    });
  }

  void run_on_kernels(const std::string& name, FunctionRef<void(GpuKernel&)> pass) {
    run_on_program(name, [&] {
      for (auto* list : {&program_->main, &program_->prepare}) {
        for (GpuKernel& k : *list) pass(k);
      }
    });
  }

  void run_on_program(const std::string& name, FunctionRef<void()> pass) {
    const auto begin = PassClock::now();
    pass();
    record_pass(*program_, options_, name, begin);
  }

 private:
  GpuProgram* program_;
  const LowerOptions& options_;
};

void find_launch_shape(GpuKernel& k) {
  const LaunchShape shape = launch_shape(make_block({k.body, k.tail}));
  check_launch_shape(k.name, shape, k.body);
  set_shape(k, shape);
}

void align_rows_of(GpuKernel& k) {
  const Stmt before = k.body;
  k.body = align_rows(before);
  if (k.tail) k.tail = align_rows(k.tail);
  k.aligns_rows = !k.body.same_as(before);
}

// Removes arguments whose last use was removed by a pass.
void drop_unused_args(GpuKernel& k) {
  k.args = used_buffers(k.body, k.tail, k.args);
  if (k.tail) k.args.push_back(k.tickets);
  note_sizes(k);
}

// The last passes, which are about how kernels are launched.
void make_launches(GpuProgram& program, Pipeline& pipeline, const Gpu& gpu,
                   const std::vector<Buffer>& constants) {
  // Kernels of `prepare` run before any other, and only once.
  if (gpu.has_dependent_launch()) {
    pipeline.run_on_kernels("overlap_launch", [&](GpuKernel& k) {
      const bool in_main =
          &k >= program.main.data() && &k < program.main.data() + program.main.size();
      if (in_main) overlap_launch(k, constants);
    });
  }
  pipeline.run_on_kernels("place_shared", place_shared);
  pipeline.run_on_kernels("drop_unused_args", drop_unused_args);
  pipeline.run_on_kernels("collect_maps", collect_maps);
  if (program.sizes.empty())
    pipeline.run_on_program("join_launches", [&] { join_launches(program, gpu); });
}

}  // namespace

GpuProgram lower_gpu(const Schedule& schedule, const std::vector<Tensor>& args,
                     const LowerOptions& options) {
  check(schedule, options);
  const auto begin = PassClock::now();
  LoweredProgram nest = lower_to_nest(schedule, args, options.name, NestPurpose::Lower);
  nest.main.body = combined_stores(nest.main.body);
  nest.prepare.body = combined_stores(nest.prepare.body);
  GpuProgram program = split_into_kernels(std::move(nest), options.name);
  Pipeline pipeline(&program, options);
  record_pass(program, options, "build_nest", begin);

  pipeline.run("simplify", [](const Stmt& s) { return simplify(s); });
  // This pass precedes loop partition, because a scan is recognised by its condition.
  pipeline.run("linear_scans", [](const Stmt& s) { return linear_scans(s); });
  pipeline.run("loop_partition", [](const Stmt& s) { return loop_partition(s); });
  // The extents of block and thread loops are final from here on.
  pipeline.run_on_kernels("turn_grid", turn_grid);
  pipeline.run_on_kernels("launch_shape", find_launch_shape);
  // From here on the program is in the thread form and not in the sequential form.
  pipeline.run_shaped("distribute", distribute);
  pipeline.run_shaped("single_out_stores", single_out_stores);
  // This pass follows those that tell which thread stores a point by its index, and precedes flatten.
  pipeline.run("scattered_stores", [](const Stmt& s) { return scattered_stores(s); });
  // This pass precedes vectorizing: (f / n)*n + f % n of fused loops simplifies to f while f is a
  // scalar.
  pipeline.run("flatten", [](const Stmt& s) { return flatten(s); });
  pipeline.run("join_zero_fills", join_zero_fills);
  pipeline.run("simplify", [](const Stmt& s) { return simplify(s); });
  pipeline.run("short_functions", [](const Stmt& s) { return short_functions(s); });
  if (!program.sizes.empty()) {
    pipeline.run_on_kernels("align_rows", align_rows_of);
    pipeline.run("simplify", [](const Stmt& s) { return simplify(s); });
    pipeline.run("drop_implied_guards", [](const Stmt& s) { return drop_implied_guards(s); });
  }
  pipeline.run("vectorize", [](const Stmt& s) { return vectorize(s); });
  pipeline.run("simplify", [](const Stmt& s) { return simplify(s); });
  if (!program.sizes.empty())
    pipeline.run("keep_rounds_in_registers",
                 [](const Stmt& s) { return keep_rounds_in_registers(s); });
  // This pass precedes software_pipeline, because tiles that TMA loads have another kind of ring.
  pipeline.run_on_kernels("warp_roles", [&](GpuKernel& k) {
    const std::vector<Buffer> more = warp_roles(k, schedule);
    program.workspace.insert(program.workspace.end(), more.begin(), more.end());
  });
  // This pass precedes insert_sync, because the ring of tiles brings its own barriers.
  pipeline.run("software_pipeline", software_pipeline);
  pipeline.run("lift_conditions", [](const Stmt& s) { return lift_conditions(s); });
  // This pass precedes insert_sync, which orders buffers and knows no addresses.
  pipeline.run("reuse_shared", reuse_shared);
  pipeline.run_shaped("insert_sync", insert_sync);
  pipeline.run("simplify", [](const Stmt& s) { return simplify(s); });
  if (!program.sizes.empty()) pipeline.run_on_kernels("predicate_loads", predicate_loads);
  pipeline.run_on_kernels("load_ahead", load_ahead);
  std::vector<Buffer> constants = program.persistent;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].op()->is_constant()) constants.push_back(program.args[i]);
  make_launches(program, pipeline, schedule.target().gpu, constants);
  return program;
}

}  // namespace heddle
