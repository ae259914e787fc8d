#include "driver/lowered_variant.h"

#include <algorithm>
#include <optional>

#include "driver/build_cuda.h"
#include "driver/program_args.h"
#include "heddle/codegen/cuda.h"
#include "heddle/support/error.h"
#include "ir/canonical.h"
#include "ir/size_line.h"
#include "schedule/steps/schedule_state.h"
#include "support/hashing/hash.h"
#include "support/hashing/hex.h"

namespace heddle::driver {
namespace {

/// Inserts the buffers of unread arguments at their positions among those of a program, and moves
/// the positions of constants accordingly.
void insert_unread(const std::vector<Tensor>& own, const std::vector<Tensor>& args,
                   std::vector<Buffer>& buffers, std::vector<int>& constant_args) {
  std::vector<int> moved;  // position before -> after
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i]) {
      moved.push_back(static_cast<int>(i));
    } else {
      buffers.insert(buffers.begin() + static_cast<long>(i), args[i].buffer());
    }
  }
  const auto unread = static_cast<int>(own.size() - moved.size());
  for (int& position : constant_args) {
    const auto at = static_cast<size_t>(position);
    position = at < moved.size() ? moved[at] : position + unread;
  }
}

std::string code_of(const LoweredFunction& f) {
  if (!f.body) return "none";
  const CanonicalForm form = canonical_form(f.body);
  std::string code = to_hex(form.key.high) + to_hex(form.key.low);
  for (const Buffer& b : form.buffers) {
    code += "," + std::to_string(std::find(f.args.begin(), f.args.end(), b) - f.args.begin());
  }
  for (const Var& v : form.sizes) {
    const auto at = std::find_if(f.sizes.begin(), f.sizes.end(),
                                 [&](const Var& own) { return own.same_as(v); });
    code += ",size" + std::to_string(at - f.sizes.begin());
  }
  return code;
}

std::string code_of(const GpuProgram& p) {
  std::string text = emit_cuda(p);
  for (const auto* list : {&p.prepare, &p.main}) {
    for (const GpuKernel& k : *list) {
      text += "\n" + k.name;
      for (const int64_t n : k.grid) text += " " + std::to_string(n);
      for (const int64_t n : k.block) text += " " + std::to_string(n);
      text += " " + std::to_string(k.cluster) + " " + std::to_string(k.shared_bytes);
      for (const Buffer& b : k.args) {
        text += "," + std::to_string(std::find(p.args.begin(), p.args.end(), b) - p.args.begin());
      }
    }
  }
  return key_of_text(text);
}

/// Adds checks for NaN and infinity of the arguments `all`, where the options ask for them.
template <class Program>
lowering::FiniteChecks with_finite_checks(Program& program, const std::vector<Tensor>& all,
                                          const std::vector<Buffer>& buffers,
                                          const BuildOptions& options) {
  if (!options.check_finite) return {};
  std::vector<lowering::CheckedArgument> args;
  for (size_t i = 0; i < all.size(); ++i)
    args.push_back({buffers[i], !all[i].op()->is_placeholder()});
  return lowering::add_finite_checks(program, args);
}

/// The constants that the kernel supplies are part of its code.
std::string code_of_bound(const LoweredVariant& v) {
  std::string code;
  for (size_t i = v.listed; i < v.all.size(); ++i) {
    const NDArray data = v.all[i].op()->data()->to_host();
    code += " " + to_hex(hash_bytes(data.data(), static_cast<size_t>(data.bytes())));
  }
  return code;
}

/// The tensor that describes what the caller gives for `t`: of rows that go to places, the memory of
/// which they are rows.
Tensor as_given(const Schedule& schedule, const Tensor& t) {
  const ScheduleState& state = schedule.state();
  const int stage = state.dag.index_of(state.dag.counterpart(t).op());
  if (stage < 0 || state.stages[stage].places < 0) return t;
  const StageState& rows = state.stages[stage];
  const auto named = static_cast<long>(state.stages[rows.places].buffers[0]->shape.size());
  Shape shape{Expr(rows.rows)};
  shape.insert(shape.end(), t.shape().begin() + named, t.shape().end());
  return compute(
      shape, [&](const std::vector<Axis>&) { return make_const(t.dtype(), 0); }, t.name());
}

}  // namespace

LoweredVariant lower_variant(const Schedule& schedule, const std::vector<Tensor>& own,
                             const std::vector<Tensor>& args, const BuildOptions& options) {
  const Target& target = target_of(schedule, options);
  std::vector<Tensor> read;
  for (const Tensor& t : own) {
    if (t) read.push_back(t);
  }
  const std::vector<Tensor> with_constants = with_bound(schedule, read);
  LoweredVariant v{schedule, nullptr, nullptr, {}, args.size(), {}, {}};
  for (size_t i = 0; i < args.size(); ++i) {
    v.all.push_back(own[i] ? as_given(schedule, own[i]) : args[i]);
    if (own[i] && !v.all[i].same_as(own[i])) v.in_part.push_back(static_cast<int>(i));
  }
  v.all.insert(v.all.end(), with_constants.begin() + static_cast<long>(read.size()),
               with_constants.end());
  if (target.is_cuda()) {
    GpuProgram p = lower_for_gpu(schedule, with_constants, options);
    insert_unread(own, args, p.args, p.constant_args);
    const std::vector<Buffer> buffers = p.args;
    v.checks = with_finite_checks(p, v.all, buffers, options);
    v.gpu = std::make_shared<const GpuProgram>(std::move(p));
  } else {
    LoweredProgram p = lower_for_build(schedule, with_constants, options);
    insert_unread(own, args, p.main.args, p.constant_args);
    const std::vector<Buffer> buffers = p.main.args;
    v.checks = with_finite_checks(p, v.all, buffers, options);
    v.cpu = std::make_shared<const LoweredProgram>(std::move(p));
  }
  return v;
}

std::string code_of(const LoweredVariant& v, const BuildOptions& options) {
  if (v.gpu) return "cuda " + code_of(*v.gpu) + code_of_bound(v);
  return "llvm O" + std::to_string(options.opt_level) + " " + code_of(v.cpu->main) + " " +
         code_of(v.cpu->prepare) + code_of_bound(v);
}

void check_sizes_are_given(const LoweredVariant& v) {
  for (const Var& size : v.gpu ? v.gpu->sizes : v.cpu->main.sizes) {
    const bool given = std::any_of(v.all.begin(), v.all.end(), [&](const Tensor& t) {
      return std::any_of(t.shape().begin(), t.shape().end(), [&](const Expr& e) {
        const std::optional<SizeLine> line = as_size_line(e);
        return line && line->size.same_as(size);
      });
    });
    if (!given)
      throw_user_error("no argument has the dimension '" + size->name + "' as an extent", {},
                       "a kernel takes sizes from the shapes of its arguments: give one of them "
                       "this extent, or a multiple of it, with or without a constant more");
  }
}

std::vector<KernelArg> args_of(const LoweredVariant& v) {
  if (v.gpu) return cuda_kernel_args(v.all, v.listed, v.gpu->constant_args, v.gpu->sizes);
  return kernel_args(v.all, v.listed, v.cpu->constant_args, v.cpu->main.sizes);
}

TimedBuild compile_variant(const LoweredVariant& v, const BuildOptions& options) {
  return v.gpu ? compile_for_gpu(v, options) : compile_for_cpu(v, options);
}

}  // namespace heddle::driver
