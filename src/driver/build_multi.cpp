#include "heddle/driver/build_multi.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "driver/build_cuda.h"
#include "driver/build_variants.h"
#include "driver/lowered_variant.h"
#include "driver/tolerance.h"
#include "heddle/dag/alternatives.h"
#include "heddle/records/record.h"
#include "heddle/support/error.h"
#include "support/files/build_id.h"

namespace heddle {

using namespace driver;

std::string driver::variant_name(const MultiVariant& v, size_t i) {
  return v.name.empty() ? "variant" + std::to_string(i) : v.name;
}

std::vector<Tensor> driver::own_args(const MultiVariant& v, const std::vector<Tensor>& args) {
  if (!v.args.empty() && v.args.size() != args.size()) {
    throw_user_error("variant '" + v.name + "' lists " + std::to_string(v.args.size()) +
                         " tensors of its own, and there are " + std::to_string(args.size()) +
                         " arguments",
                     {}, "list one in the place of each argument, Tensor() where it reads none");
  }
  const ComputeDag& dag = v.schedule->dag().direct();
  const std::vector<Tensor> unread = dag.unread_placeholders();
  std::vector<Tensor> own = v.args.empty() ? args : v.args;
  for (size_t i = 0; i < own.size(); ++i) {
    const bool known = own[i] && (dag.index_of(own[i].op()) >= 0 ||
                                  std::any_of(unread.begin(), unread.end(),
                                              [&](const Tensor& u) { return u.same_as(own[i]); }));
    if (!known && !args[i].op()->is_placeholder()) {
      throw_user_error(
          "variant '" + v.name + "' does not compute the output '" + args[i].name() + "'",
          args[i].op()->where(),
          "every variant computes all outputs; name its own tensors in "
          "MultiVariant::args where its declaration is another one");
    }
    if (!known && !v.args.empty() && own[i]) {
      throw_user_error("variant '" + v.name + "' lists '" + own[i].name() +
                           "', which is no part of its declaration",
                       own[i].op()->where());
    }
    if (!known) own[i] = Tensor();
  }
  return own;
}

// The tolerance of checks (driver/tolerance.h) for an output whose largest element is 1, enlarged
// as the alternatives among the variants may.
std::vector<AnswerTolerance> driver::tolerances_of(const std::vector<MultiVariant>& variants,
                                                   const std::vector<Tensor>& args) {
  const Schedule* first = nullptr;
  double growth = 1;
  bool tf32 = false;
  for (const MultiVariant& v : variants) {
    if (!v.schedule) continue;
    if (first == nullptr) first = &*v.schedule;
    const ComputeDag& dag = v.schedule->dag();
    growth = std::max(growth, alternative_error_growth(dag.direct(), dag.alternative()));
    tf32 = tf32 || v.schedule->options().allow_tf32;
  }
  std::vector<AnswerTolerance> out;
  for (const Tensor& t : args) {
    if (t.op()->is_placeholder() || first == nullptr) continue;
    const Tolerance at_one =
        rounding_tolerance(first->dag().direct(), NDArray::full({1}, t.dtype(), 1), 0, tf32);
    out.push_back({at_one.rtol, 0, growth * at_one.atol});
  }
  return out;
}

namespace {

void check_target(const Target& first, const MultiVariant& v) {
  const Target& own = v.schedule->target();
  if (own.kind == first.kind && (!own.is_cuda() || own.gpu.arch == first.gpu.arch)) return;
  throw_user_error("variant '" + v.name + "' is for '" + to_string(own) +
                       "', and another one is for '" + to_string(first) + "'",
                   {}, "variants of one multi-kernel run on one machine");
}

KernelVariant compiled_variant(const MultiVariant& v, const std::vector<Tensor>& args,
                               const BuildOptions& options, std::vector<bool>& read) {
  const std::vector<Tensor> own = own_args(v, args);
  for (size_t i = 0; i < own.size(); ++i) read[i] = read[i] || static_cast<bool>(own[i]);
  const auto lowered =
      std::make_shared<const LoweredVariant>(lower_variant(*v.schedule, own, args, options));
  check_sizes_are_given(*lowered);
  KernelVariant out;
  out.name = v.name;
  out.args = args_of(*lowered);
  out.code = code_of(*lowered, options);
  out.compile = [lowered, options] { return compile_variant(*lowered, options).kernel; };
  return out;
}

KernelVariant function_variant(const MultiVariant& v, const std::vector<Tensor>& args) {
  KernelVariant out;
  out.name = v.name;
  for (const Tensor& t : args) {
    out.args.push_back(describe(t.buffer()));
    out.args.back().output = !t.op()->is_placeholder();
  }
  out.function = v.function;
  if (!v.code.empty()) out.code = "function " + v.name + " " + v.code;
  out.reads_outputs = v.reads_outputs;
  return out;
}

void check_read(const std::vector<Tensor>& args, const std::vector<bool>& read) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (read[i]) continue;
    throw_user_error("no variant reads or computes argument '" + args[i].name() + "'",
                     args[i].op()->where(), "leave it out of the arguments");
  }
}

}  // namespace

MultiVariant::MultiVariant(Schedule s) : schedule(std::move(s)) {}

MultiVariant::MultiVariant(std::string variant_name, Schedule s, std::vector<Tensor> own)
    : name(std::move(variant_name)), schedule(std::move(s)), args(std::move(own)) {}

MultiVariant::MultiVariant(std::string variant_name,
                           std::function<void(std::span<const NDArray>)> f, std::string version,
                           bool in_place)
    : name(std::move(variant_name)),
      function(std::move(f)),
      code(std::move(version)),
      reads_outputs(in_place) {}

PickOrigin pick_origin() {
  return {internal::machine_fingerprint(),
          internal::build_fingerprint() + " " + build_id().substr(0, 16)};
}

MultiKernel build_multi(std::vector<MultiVariant> variants, const std::vector<Tensor>& args,
                        const MultiOptions& options) {
  MultiKernelFacts facts;
  facts.name = options.build.name;
  facts.target = to_string(Target::host());
  facts.machine = pick_origin().machine;
  facts.build = pick_origin().build;
  if (variants.empty()) {
    throw_user_error("'" + facts.name + "' has no variant", {}, "give one at least");
  }
  const Target* target = nullptr;
  for (size_t i = 0; i < variants.size(); ++i) {
    MultiVariant& v = variants[i];
    v.name = variant_name(v, i);
    if (!v.schedule) continue;
    if (target == nullptr) target = &v.schedule->target();
    check_target(*target, v);
  }
  if (target != nullptr) {
    facts.target = to_string(*target);
    facts.on_gpu = target->is_cuda();
  }
  facts.tolerances = tolerances_of(variants, args);
  std::vector<bool> read(args.size(), false);
  std::vector<KernelVariant> built;
  for (const MultiVariant& v : variants) {
    if (v.schedule) {
      built.push_back(compiled_variant(v, args, options.build, read));
    } else {
      built.push_back(function_variant(v, args));
      read.assign(read.size(), true);
    }
  }
  check_read(args, read);
  return MultiKernel(std::move(facts), std::move(built), options.pick);
}

PickRow pick_on_random_inputs(const MultiKernel& kernel) {
  for (const std::string& name : kernel.variants()) {
    try {
      kernel.kernel(name);
    } catch (const Error&) {
      // The variant is a function, or does not compile. The race leaves it out, with a message.
    }
  }
  std::vector<NDArray> arrays;
  for (const KernelArg& a : kernel.args()) {
    arrays.push_back(a.output ? NDArray::zeros(a.shape, a.dtype)
                              : NDArray::random(a.shape, a.dtype, arrays.size() + 1));
  }
  return kernel.pick(arrays);
}

}  // namespace heddle
