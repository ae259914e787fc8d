// The whole pipeline, top to bottom. Order matters where a comment says so.
#include "heddle/lower/lower.h"

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/lower_to_nest.h"
#include "lower/passes.h"
#include "lower/record_pass.h"
#include "lower/select_instructions.h"

namespace heddle {

using namespace lowering;
namespace {

class Pipeline {
 public:
  Pipeline(LoweredProgram* p, const LowerOptions& o) : program_(p), options_(o) {}

  void run(const std::string& name, FunctionRef<Stmt(const Stmt&)> pass) {
    auto begin = PassClock::now();
    if (program_->main.body) program_->main.body = pass(program_->main.body);
    if (program_->prepare.body) program_->prepare.body = pass(program_->prepare.body);
    record_pass(*program_, options_, name, begin);
  }

 private:
  LoweredProgram* program_;
  const LowerOptions& options_;
};

constexpr int kMaxUnroll = 512;

int unroll_limit(const Schedule& schedule, const LowerOptions& options) {
  const int own = schedule.options().max_unroll, asked = options.max_unroll;
  if (asked < 0 || (asked > 0 && own > 0 && asked != own)) {
    throw_user_error("max_unroll is " + std::to_string(asked) +
                         (own > 0 ? ", and the schedule was made with " + std::to_string(own) : ""),
                     {}, "leave it 0: the schedule's options say it");
  }
  return asked > 0 ? asked : own > 0 ? own : kMaxUnroll;
}

}  // namespace

LoweredProgram lower(const Schedule& schedule, const std::vector<Tensor>& args,
                     const LowerOptions& options) {
  auto begin = PassClock::now();
  const int max_unroll = unroll_limit(schedule, options);
  LoweredProgram program = lower_to_nest(schedule, args, options.name, NestPurpose::Lower);
  Pipeline pipeline(&program, options);
  record_pass(program, options, "build_nest", begin);

  pipeline.run("simplify", [](const Stmt& x) { return simplify(x); });
  // This pass precedes loop partition, because a scan is recognised by its condition.
  pipeline.run("linear_scans", [](const Stmt& x) { return linear_scans(x); });
  // So is a scatter.
  pipeline.run("scattered_stores", [](const Stmt& x) { return scattered_stores(x); });
  pipeline.run("loop_partition", [](const Stmt& x) { return loop_partition(x); });
  // This pass precedes vectorizing: (f / n)*n + f % n of fused loops simplifies to f while f is a
  // scalar.
  pipeline.run("flatten", [](const Stmt& x) { return flatten(x); });
  pipeline.run("simplify", [](const Stmt& x) { return simplify(x); });
  const Target& target = schedule.target();
  const int64_t masked_bytes = masks_lanes(target) ? target.vector_bytes : 0;
  if (const std::vector<Var>& sizes = program.main.sizes; !sizes.empty()) {
    const int64_t lanes = masked_bytes / f32.bytes();
    pipeline.run("short_rows", [&](const Stmt& x) { return short_rows(x, sizes, lanes); });
  }
  if (!target.is_cuda()) {
    const std::vector<InstructionMatch> matches = cpu_instructions();
    pipeline.run("select_instructions",
                 [&](const Stmt& x) { return select_instructions(x, matches); });
  }
  // This pass precedes unrolling, so that one vector statement is copied and not one for each lane.
  pipeline.run("vectorize", [&](const Stmt& x) { return vectorize(x, masked_bytes); });
  pipeline.run("unroll", [&](const Stmt& x) { return unroll(x, max_unroll); });
  // Equal places must look equal before their updates are merged.
  pipeline.run("simplify", [](const Stmt& x) { return simplify(x); });
  if (const std::vector<Var>& sizes = program.main.sizes; !sizes.empty())
    pipeline.run("unit_strides", [&](const Stmt& x) { return unit_strides(x, sizes); });
  // A vector is at most a line of memory, so what is fetched stays fetched.
  const int64_t vector_bytes = target.vector_bytes;
  pipeline.run("thin_prefetches", [&](const Stmt& x) { return thin_prefetches(x, vector_bytes); });
  pipeline.run("merge_updates", [](const Stmt& x) { return merge_updates(x); });
  // This pass comes last, when the loops that it merges have their final form.
  pipeline.run("pipeline_rows", [](const Stmt& x) { return pipeline_rows(x); });
  return program;
}

}  // namespace heddle
