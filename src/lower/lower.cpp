// The whole pipeline, top to bottom. Order matters where a comment says so.
#include "heddle/lower/lower.h"

#include <algorithm>
#include <functional>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/build_nest.h"
#include "lower/lower_to_nest.h"
#include "lower/passes.h"
#include "lower/record_pass.h"
#include "schedule/schedule_state.h"

namespace heddle {
namespace {

// Root stages that depend on nothing but constant placeholders: computed once, kept.
std::vector<char> constant_stages(const ScheduleState& s, const std::vector<int>& order) {
  std::vector<char> constant(s.stages.size(), 0);
  for (int st : order) {
    const StageState& x = s.stages[st];
    if (x.placeholder) {
      constant[st] = x.constant;
      continue;
    }
    bool all = true, some = false;
    for (const Expr& body : x.bodies) {
      visit(body, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        if (!load) return;
        int p = s.stage_of(load->buffer);
        all &= p >= 0 && constant[p];
        some = true;
      });
    }
    constant[st] = all && some && !x.output;
  }
  return constant;
}

// Whether `t` is an argument that no stage reads, in a declaration without elements.
bool is_unread(const ScheduleState& s, const Tensor& t) {
  const std::vector<Tensor> unread = s.dag.direct().unread_placeholders();
  return std::any_of(unread.begin(), unread.end(), [&](const Tensor& u) { return u.same_as(t); });
}

// Whether the stage has no elements.
bool is_empty(const ScheduleState& s, int st) {
  const std::vector<int>& axes = s.stages[st].spatial;
  return std::any_of(axes.begin(), axes.end(),
                     [&](int a) { return is_const(s.axes[a].extent, 0); });
}

void check_args(const ScheduleState& s, const std::vector<Tensor>& args) {
  for (const Tensor& t : args) {
    int st = s.dag.index_of(t.op());
    if (st < 0 && is_unread(s, t)) continue;
    if (st < 0 || (!s.stages[st].placeholder && !s.stages[st].output)) {
      throw_user_error(
          "argument '" + t.name() + "' is neither an input nor an output of the program", {},
          "pass the placeholders that the outputs read, and the outputs");
    }
  }
  auto has = [&](const Tensor& t) {
    return std::count_if(args.begin(), args.end(), [&](const Tensor& a) { return a.same_as(t); });
  };
  std::vector<Tensor> needed = s.dag.placeholders();
  for (const Tensor& t : s.dag.outputs()) needed.push_back(t);
  for (const Tensor& t : needed) {
    if (has(t) > 0) continue;
    throw_user_error("'" + t.name() + "' is missing from the arguments", t.op()->where(),
                     "list every input and every output of the program once");
  }
  for (const Tensor& t : args) {
    if (has(t) == 1) continue;
    throw_user_error("'" + t.name() + "' is listed twice among the arguments", t.op()->where());
  }
}

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

}  // namespace

LoweredProgram lower_to_nest(const Schedule& schedule, const std::vector<Tensor>& declared,
                             const std::string& name, NestPurpose purpose) {
  const ScheduleState& s = schedule.state();
  // A rewritten graph takes the arguments of the one it was made of.
  std::vector<Tensor> args;
  for (const Tensor& t : declared) args.push_back(s.dag.counterpart(t));
  check_args(s, args);
  LoweredProgram program;

  // Constant stages are computed once (prepare), the others at each call (main).
  std::vector<int> order = topological_stages(s);
  std::vector<char> constant = constant_stages(s, order);
  auto at_root = [&](int st) {
    return !s.stages[st].placeholder && s.stages[st].placement == Placement::Root &&
           !is_empty(s, st);
  };
  std::vector<int> main_roots, prepare_roots;
  for (int st : order) {
    if (at_root(st)) (constant[st] ? prepare_roots : main_roots).push_back(st);
  }

  std::vector<StageBuffers> external(s.stages.size());
  program.main.name = name;
  program.prepare.name = name + "_prepare";
  for (size_t i = 0; i < args.size(); ++i) {
    int st = s.dag.index_of(args[i].op());
    if (st < 0) {  // unread
      program.main.args.push_back(args[i].buffer());
      continue;
    }
    if (external[st].buffers.empty()) external[st] = root_buffers(s, st, Scope::Argument);
    program.main.args.push_back(external[st].buffers[args[i].index()]);
    if (s.stages[st].constant && !prepare_roots.empty()) {
      program.constant_args.push_back(static_cast<int>(i));
      program.prepare.args.push_back(external[st].buffers[args[i].index()]);
    }
  }
  std::vector<StageBuffers> given;
  for (auto& b : external) {
    if (!b.buffers.empty()) given.push_back(b);
  }
  // Outputs of an output stage that are not arguments are kept in temporaries.
  std::vector<Buffer> unused;
  for (const StageBuffers& g : given) {
    for (const Buffer& b : g.buffers) {
      const auto& listed = program.main.args;
      if (std::find(listed.begin(), listed.end(), b) == listed.end()) unused.push_back(b);
    }
  }
  // The constant stages that main reads are kept between calls.
  auto runs_in_main = [&](int st) {  // a constant stage may be computed inside one that is not
    while (s.stages[st].placement == Placement::At) st = s.stages[st].at_stage;
    return !constant[st];
  };
  auto read_by_main = [&](int st) {
    for (int r : s.readers(st)) {
      if (runs_in_main(r)) return true;
    }
    return false;
  };
  for (int st : prepare_roots) {
    if (!read_by_main(st)) continue;
    given.push_back(root_buffers(s, st, Scope::Argument));
    for (const Buffer& x : given.back().buffers) program.persistent.push_back(x);
  }
  for (const Buffer& b : program.persistent) {
    program.main.args.push_back(b);
    program.prepare.args.push_back(b);
  }
  const bool look = purpose == NestPurpose::Look;
  program.main.body = build_nest(s, main_roots, given, look);
  for (const Buffer& b : unused) program.main.body = make_allocate(b, program.main.body);
  if (!look && !prepare_roots.empty()) program.prepare.body = build_nest(s, prepare_roots, given);
  return program;
}

namespace {

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
  // Before conditions are cut out of loops: a scan is known by its condition.
  pipeline.run("linear_scans", [](const Stmt& x) { return linear_scans(x); });
  pipeline.run("loop_partition", [](const Stmt& x) { return loop_partition(x); });
  // Before vectorizing: (f / n)*n + f % n of fused loops is f again while f is still a scalar.
  pipeline.run("flatten", [](const Stmt& x) { return flatten(x); });
  pipeline.run("simplify", [](const Stmt& x) { return simplify(x); });
  // Before unrolling: one vector statement is copied instead of one per lane.
  pipeline.run("vectorize", [](const Stmt& x) { return vectorize(x); });
  pipeline.run("unroll", [&](const Stmt& x) { return unroll(x, max_unroll); });
  // Equal places must look equal before their updates are merged.
  pipeline.run("simplify", [](const Stmt& x) { return simplify(x); });
  pipeline.run("merge_updates", [](const Stmt& x) { return merge_updates(x); });
  // Last: the loops that it merges are then what they will be.
  pipeline.run("pipeline_rows", [](const Stmt& x) { return pipeline_rows(x); });
  return program;
}

}  // namespace heddle
