#include "selftest/pair.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "dag/rewrites/legal_rewrites.h"
#include "driver/tolerance.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/codegen/llvm.h"
#include "heddle/lower/lower.h"

namespace heddle::selftest {

namespace {

// What no result is.
constexpr double kNoResult = 77;

}  // namespace

Case::Case(const RandomProgram& program, uint64_t seed, bool allow_tf32)
    : program_(program), inputs_(random_inputs(program, seed)), allow_tf32_(allow_tf32) {
  std::vector<TensorValue> values;
  for (size_t i = 0; i < inputs_.size(); ++i) values.push_back({program.inputs[i], inputs_[i]});
  want_ = interpret(program.outputs, values);
}

std::vector<NDArray> Case::fresh_arrays() const {
  std::vector<NDArray> arrays = inputs_;
  for (const Tensor& t : program_.outputs) {
    Extents shape = t.extents();
    if (program_.places) {
      shape.erase(shape.begin(), shape.begin() + program_.places.rank());
      shape.insert(shape.begin(), program_.rows);
    }
    arrays.push_back(NDArray::full(shape, t.dtype(), kNoResult));
  }
  return arrays;
}

/// The rows of `memory` at their places, and those of `want` that have none. Rows of the memory that no
/// place names must be as they were.
NDArray Case::gathered(const NDArray& memory, const NDArray& want) const {
  NDArray rows = want.copy();
  const NDArray rest = memory.copy();
  const auto position = std::find_if(program_.inputs.begin(), program_.inputs.end(),
                                     [&](const Tensor& t) { return t.same_as(program_.places); });
  const NDArray& places = inputs_[static_cast<size_t>(position - program_.inputs.begin())];
  const int64_t width = want.size() / places.size();
  for (int64_t q = 0; q < places.size(); ++q) {
    const auto place = static_cast<int64_t>(places.get(q));
    if (place < 0 || place >= program_.rows) continue;
    for (int64_t e = 0; e < width; ++e) {
      rows.set(q * width + e, memory.get(place * width + e));
      rest.set(place * width + e, kNoResult);
    }
  }
  for (int64_t i = 0; i < rest.size(); ++i) {
    if (rest.get(i) != kNoResult) throw_internal_error("a row is written that no place names");
  }
  return rows;
}

namespace {

/// The size of partial results of the longest sum, whose terms are of the order of 1 and of both signs. The tolerance has
/// an eighth of them for its length already.
double partial_results(const ComputeDag& dag) {
  int64_t longest = 0;
  for (int i = 0; i < dag.size(); ++i) longest = std::max(longest, dag.info(i).reduce_points);
  return std::max(1.0, std::sqrt(static_cast<double>(longest)) / 8);
}

}  // namespace

std::string Case::difference(const std::vector<NDArray>& arrays, double growth) const {
  const ComputeDag dag(program_.outputs);
  const double magnitude = partial_results(dag);
  for (size_t o = 0; o < want_.size(); ++o) {
    NDArray got = arrays[inputs_.size() + o];
    if (program_.places) got = gathered(got, want_[o]);
    // Inputs and the terms of every sum are of the order of 1.
    const driver::Tolerance t = driver::rounding_tolerance(dag, want_[o], magnitude, allow_tf32_);
    const Difference d = compare(got, want_[o], growth * t.rtol, growth * t.atol);
    if (!d.ok()) {
      return "output " + std::to_string(o) + " and the interpreter's: " + describe(d, got);
    }
  }
  return "";
}

namespace {

// The emulator has as much shared memory as a kernel asks for, and a GPU has not.
void check_shared_memory(const GpuProgram& program, const Gpu& gpu) {
  for (const GpuKernel& k : program.main) {
    if (k.shared_bytes > gpu.smem_per_block) {
      throw_user_error("kernel '" + k.name + "' needs " + std::to_string(k.shared_bytes) +
                       " bytes of shared memory of " + std::to_string(gpu.smem_per_block));
    }
  }
}

}  // namespace

Run emulated(uint64_t seed) {
  return [seed](const Schedule& schedule, const std::vector<Tensor>& args,
                const std::vector<NDArray>& arrays) {
    // A rewritten graph takes the same arrays with other dimensions.
    std::vector<NDArray> own;
    for (size_t i = 0; i < args.size(); ++i) {
      const Tensor arg = schedule.dag().counterpart(args[i]);
      own.push_back(arg.same_as(args[i]) ? arrays[i] : arrays[i].view(arg.extents()));
    }
    const GpuProgram program = lower_gpu(schedule, args);
    check_shared_memory(program, schedule.target().gpu);
    emulate(program, own, {seed});
  };
}

Run compiled(const Target& target) {
  return [target](const Schedule& schedule, const std::vector<Tensor>& args,
                  const std::vector<NDArray>& arrays) {
    build(schedule.for_target(target), args).call(arrays);
  };
}

bool is_wanted(const PairResult& result, const PairOptions& options) {
  const std::string config =
      result.text.substr(std::min(result.text.size(), result.declaration.size()));
  return result.declaration.find(options.only) != std::string::npos &&
         (config.find(options.config) != std::string::npos || !result.problem.empty());
}

std::string random_rewrite(const ComputeDag& dag, const Target& target, Rng& rng) {
  std::map<std::string, std::vector<std::string>> by_rule;
  for (const std::string& name : legal_rewrites(dag, target))
    by_rule[name.substr(0, name.find_first_of("(@"))].push_back(name);
  if (by_rule.empty() || rng.uniform_int(0, 1) > 0) return "";
  std::vector<std::string> rules;
  for (const auto& [rule, names] : by_rule) rules.push_back(rule);
  return rng.choose(by_rule.at(rng.choose(rules)));
}

namespace {

Target code_target(const PairOptions& options, const Target& target) {
  if (!options.compile_for) return target;
  Target out = *options.compile_for;
  out.cores = target.cores;
  return out;
}

// CUDA text or LLVM IR. Nothing is optimised.
std::string code_of(const Schedule& schedule, const std::vector<Tensor>& args,
                    const Target& target) {
  if (target.is_cuda()) return emit_cuda(lower_gpu(schedule, args));
  LoweredProgram program = lower(schedule.for_target(target), args);
  std::vector<LoweredFunction> functions{std::move(program.main)};
  if (program.prepare.body) functions.push_back(std::move(program.prepare));
  return emit_llvm(functions, target, "ll");
}

}  // namespace

PairResult run_pair(uint64_t seed, const PairOptions& options, Coverage* coverage) {
  Rng rng(seed);
  PairResult result;
  try {
    const RandomProgram program = random_program(rng);
    result.declaration = result.text = program.text;
    if (program.text.find(options.only) == std::string::npos) return result;
    Target target = options.target;
    AutoSchedulerOptions scheduler = current_auto_scheduler_options();
    scheduler.allow_tf32 |= program.allow_tf32 && target.is_cuda();
    if (!target.is_cuda()) target.cores = static_cast<int>(rng.uniform_int(1, 3));
    ComputeDag dag(program.outputs);
    const ComputeDag declared = dag;
    const std::string alternative = program.places ? "" : random_rewrite(dag, target, rng);
    if (!alternative.empty()) {
      result.text += "\n  alternative " + alternative;
      dag = apply_alternative(dag, alternative);
    }
    const Template t = make_template(dag, target, scheduler);
    // The naive schedule would hide that no template schedules the program.
    if (t.is_last_resort()) throw_internal_error(t.refusals().back().why);
    const Config c = rng.uniform_int(0, 9) == 0 ? t.default_config() : random_config(t, rng);
    result.text += "\n  " + t.name() + " " + t.config_to_json(c).dump();
    if (!is_wanted(result, options)) return result;
    if (coverage != nullptr) coverage->count(t, c);
    if (coverage != nullptr && !alternative.empty()) coverage->count_alternative(alternative);
    Schedule schedule = t.instantiate(c);
    program.store_rows(schedule);
    if (options.only_code) {
      result.code = code_of(schedule, program.args(), code_target(options, target));
      return result;
    }
    const Case want(program, seed, scheduler.allow_tf32);
    const std::vector<NDArray> arrays = want.fresh_arrays();
    const Run run = options.emulate ? emulated(seed) : compiled(code_target(options, target));
    if (options.keep_kernels && target.is_cuda()) {
      result.kernels = to_string(lower_gpu(schedule, program.args()));
    }
    run(schedule, program.args(), arrays);
    result.problem = want.difference(arrays, alternative_error_growth(declared, alternative));
  } catch (const std::exception& e) {
    result.problem = std::string("threw: ") + e.what();
  }
  return result;
}

}  // namespace heddle::selftest
