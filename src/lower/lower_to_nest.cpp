#include "lower/lower_to_nest.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/nest/build_nest.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::lowering {
namespace {

// Whether what the stage computes depends on the sizes of a call.
bool has_sizes(const ScheduleState& s, const StageState& x) {
  std::vector<Var> sizes;
  for (const auto* axes : {&x.spatial, &x.reduce}) {
    for (const int a : *axes) add_sizes(s.axes[static_cast<size_t>(a)].extent, &sizes);
  }
  for (const Expr& body : x.bodies) add_sizes(body, &sizes);
  return !sizes.empty();
}

// The sizes of the program.
std::vector<Var> sizes_of(const ScheduleState& s, const std::vector<Buffer>& args) {
  std::vector<Var> sizes;
  for (const Buffer& b : args) {
    for (const Expr& e : b->shape) add_sizes(e, &sizes);
  }
  for (const StageState& x : s.stages) {
    if (!x.defined()) continue;
    for (const auto* axes : {&x.spatial, &x.reduce}) {
      for (const int a : *axes) add_sizes(s.axes[static_cast<size_t>(a)].extent, &sizes);
    }
    for (const Expr& body : x.bodies) add_sizes(body, &sizes);
  }
  return sizes;
}

// Root stages that depend on constant placeholders only. They are computed once and kept.
std::vector<char> constant_stages(const ScheduleState& s, const std::vector<int>& order) {
  std::vector<char> constant(s.stages.size(), 0);
  for (int st : order) {
    const StageState& x = s.stages[st];
    if (x.placeholder) {
      constant[st] = x.constant;
      continue;
    }
    bool all = !has_sizes(s, x), some = false;
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

/// Sorts stages and buffers into what runs once (prepare) and what runs at each call (main).
class NestProgram {
 public:
  NestProgram(const ScheduleState& s, const std::vector<Tensor>& args, bool masks)
      : s_(s), masks_(masks) {
    const std::vector<int> order = topological_stages(s);
    constant_ = constant_stages(s, order);
    for (int st : order) {
      const bool at_root = !s.stages[st].placeholder && s.stages[st].placement == Placement::Root &&
                           !is_empty(s, st);
      if (at_root) (constant_[st] ? prepare_roots_ : main_roots_).push_back(st);
    }
    bind_args(args);
    keep_constants();
  }

  LoweredProgram nests(const std::string& name, NestPurpose purpose) {
    const bool look = purpose == NestPurpose::Look;
    program_.main.name = name;
    program_.prepare.name = name + "_prepare";
    program_.main.sizes = sizes_of(s_, program_.main.args);
    program_.main.body = build_nest(s_, main_roots_, given_, {look, masks_});
    for (const Buffer& b : unused_) program_.main.body = make_allocate(b, program_.main.body);
    if (!look && !prepare_roots_.empty())
      program_.prepare.body = build_nest(s_, prepare_roots_, given_, {false, masks_});
    return std::move(program_);
  }

 private:
  void bind_args(const std::vector<Tensor>& args) {
    std::vector<StageBuffers> external(s_.stages.size());
    for (size_t i = 0; i < args.size(); ++i) {
      const int st = s_.dag.index_of(args[i].op());
      if (st < 0) {  // an argument that no stage reads
        program_.main.args.push_back(args[i].buffer());
        continue;
      }
      if (external[st].buffers.empty()) external[st] = root_buffers(s_, st, Scope::Argument);
      program_.main.args.push_back(external[st].buffers[args[i].index()]);
      if (s_.stages[st].constant && !prepare_roots_.empty()) {
        program_.constant_args.push_back(static_cast<int>(i));
        program_.prepare.args.push_back(external[st].buffers[args[i].index()]);
      }
    }
    // Outputs of an output stage that are not arguments are kept in temporaries.
    const auto& listed = program_.main.args;
    for (StageBuffers& stage : external) {
      if (stage.buffers.empty()) continue;
      for (Buffer& b : stage.buffers) {
        if (std::find(listed.begin(), listed.end(), b) != listed.end()) continue;
        b = Buffer::make(b->name, b->dtype, b->shape, Scope::Global);
        unused_.push_back(b);
      }
      given_.push_back(std::move(stage));
    }
  }

  /// The constant stages that main reads are kept between calls.
  void keep_constants() {
    for (int st : prepare_roots_) {
      const std::vector<int> readers = s_.readers(st);
      if (std::none_of(readers.begin(), readers.end(), [&](int r) { return runs_in_main(r); }))
        continue;
      given_.push_back(root_buffers(s_, st, Scope::Argument));
      for (const Buffer& b : given_.back().buffers) program_.persistent.push_back(b);
    }
    for (const Buffer& b : program_.persistent) {
      program_.main.args.push_back(b);
      program_.prepare.args.push_back(b);
    }
  }

  /// A constant stage may be computed inside one that is not.
  bool runs_in_main(int st) const {
    while (s_.stages[st].placement == Placement::At) st = s_.stages[st].at_stage;
    return !constant_[st];
  }

  const ScheduleState& s_;
  const bool masks_;
  std::vector<char> constant_;
  std::vector<int> main_roots_, prepare_roots_;
  std::vector<StageBuffers> given_;  ///< arguments and persistent buffers
  std::vector<Buffer> unused_;
  LoweredProgram program_;
};

}  // namespace

bool masks_lanes(const Target& target) {
  return target.has("avx512f") && target.has("avx512vl") && target.has("avx512bw") &&
         target.has("avx512dq");
}

LoweredProgram lower_to_nest(const Schedule& schedule, const std::vector<Tensor>& declared,
                             const std::string& name, NestPurpose purpose) {
  const ScheduleState& s = schedule.state();
  // A rewritten graph takes the arguments of the graph that it was made from.
  std::vector<Tensor> args;
  for (const Tensor& t : declared) args.push_back(s.dag.counterpart(t));
  check_args(s, args);
  return NestProgram(s, args, masks_lanes(schedule.target())).nests(name, purpose);
}

}  // namespace heddle::lowering
