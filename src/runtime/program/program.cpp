#include "runtime/program/program.h"

#include <algorithm>
#include <set>

#include "heddle/support/error.h"
#include "runtime/array/deferred.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/one_call.h"
#include "runtime/kernel/check_arguments.h"
#include "runtime/kernel/profile_steps.h"
#include "runtime/program/views.h"

namespace heddle {

ProgramParts one_step(const std::vector<Kernel>& kernels, SizeTree tree) {
  const Kernel& first = kernels[0];
  ProgramVariant all;
  for (size_t i = 0; i < first.args().size(); ++i)
    all.places.push_back({ProgramPlace::Argument, static_cast<int64_t>(i)});
  for (size_t i = 0; i < first.sizes().size(); ++i) all.sizes.push_back(i);
  ProgramParts parts{.name = first.name(), .args = first.args(), .sizes = first.sizes()};
  parts.direct = true;
  parts.steps.push_back({first.name(), {}, std::move(tree)});
  for (const Kernel& kernel : kernels) {
    all.kernel = kernel;
    parts.steps[0].variants.push_back(all);
  }
  return parts;
}

Program::Program(ProgramParts parts) : parts_(std::move(parts)) {
  size_t count = 0;
  for (const ProgramStep& step : parts_.steps) {
    first_.push_back(count);
    count += step.variants.size();
  }
  facts_ = std::make_unique<Facts[]>(count);
  std::vector<NDArray> constants = parts_.arrays;
  is_read_.assign(parts_.arrays.size(), parts_.keeps_constants);
  for (KernelArg& arg : parts_.args) arg.only_prepared = arg.constant;  // until a kernel reads it
  for (size_t s = 0; s < parts_.steps.size(); ++s) {
    const std::vector<ProgramVariant>& variants = parts_.steps[s].variants;
    for (size_t v = 0; v < variants.size(); ++v) {
      learn(variants[v], facts_[first_[s] + v], constants);
      for (size_t before = 0; before < v; ++before) {
        if (variants[v].kernel.share_prepared(variants[before].kernel)) break;
      }
    }
  }
  apart_ = MemoryRanges(constants);
  written_ = parts_.args;
  for (const size_t i : parts_.updated) written_[i].output = true;
  // No memory of a GPU is allocated before the first call.
  if (on_gpu_) {
    calls_ = std::make_unique<cuda::DeviceCalls>(parts_.graphs, kept());
    return;
  }
  constants_ = make_constants();
  if (parts_.arena_bytes > 0) arenas_.give_back(NDArray::empty({parts_.arena_bytes}, u8));
}

void Program::learn(const ProgramVariant& variant, Facts& facts, std::vector<NDArray>& constants) {
  KernelRuntime& kernel = runtime_of(variant.kernel);
  facts.kernel = &kernel;
  on_gpu_ = kernel.cuda != nullptr;
  HEDDLE_ICHECK(parts_.direct || (!kernel.checks_finite() && !kernel.code->before),
                "the kernels of a network check no elements");
  for (const BoundConstant& b : kernel.code->bound) constants.push_back(b.array);
  for (size_t i = 0; i < variant.places.size(); ++i) {
    const KernelArg& arg = kernel.code->args[i];
    for (const ProgramPlace& place : parts_of(variant.places[i]))
      learn_place(place, arg, facts, kernel.has_prepare());
    if (variant.places[i].where != ProgramPlace::Turn) continue;
    const SizeSum& row = parts_.turns[static_cast<size_t>(variant.places[i].at)].row_bytes;
    const auto is_aligned = [&](int64_t bytes) { return bytes % std::max(arg.alignment, 1) == 0; };
    HEDDLE_ICHECK(is_aligned(row.constant) && std::ranges::all_of(row.factors, is_aligned),
                  "rows of '" + arg.name + "' lie where its kernel cannot use them");
  }
}

std::vector<ProgramPlace> Program::parts_of(const ProgramPlace& place) const {
  if (place.where != ProgramPlace::Turn) return {place};
  const TurnPlace& turn = parts_.turns[static_cast<size_t>(place.at)];
  return {turn.even, turn.odd, turn.first, turn.last};
}

void Program::learn_place(const ProgramPlace& place, const KernelArg& arg, Facts& facts,
                          bool has_prepare) {
  if (place.where == ProgramPlace::Arena) {
    HEDDLE_ICHECK(place.at % std::max(arg.alignment, 1) == 0,
                  "'" + arg.name + "' lies where its kernel cannot read it");
  }
  if (place.where == ProgramPlace::Array && !arg.only_prepared)
    is_read_[static_cast<size_t>(place.at)] = true;
  size_t argument = static_cast<size_t>(place.at);
  if (place.where == ProgramPlace::View) {
    const ProgramView& view = parts_.views[argument];
    HEDDLE_ICHECK(view.row_bytes % std::max(arg.alignment, 1) == 0,
                  "rows of '" + arg.name + "' lie where its kernel cannot write them");
    argument = view.argument;
  } else if (place.where != ProgramPlace::Argument) {
    return;
  }
  KernelArg& own = parts_.args[argument];
  own.alignment = std::max(own.alignment, arg.alignment);
  own.only_prepared = own.only_prepared && arg.only_prepared;
  facts.prepares_arguments |= arg.constant && has_prepare;
}

std::vector<int64_t> Program::runs_of_steps(std::span<const int64_t> sizes) const {
  std::vector<int64_t> runs(parts_.steps.size(), 1);
  for (const ProgramLoop& loop : parts_.loops) {
    for (size_t s = loop.begin; s < loop.end; ++s) runs[s] = loop.turns.at(sizes);
  }
  return runs;
}

std::vector<size_t> Program::kept() const {
  std::set<size_t> all(parts_.updated.begin(), parts_.updated.end());
  for (const ProgramStep& step : parts_.steps) {
    for (const ProgramVariant& variant : step.variants) {
      for (const int i : runtime_of(variant.kernel).code->cuda->in_part) {
        const ProgramPlace place = variant.places[static_cast<size_t>(i)];
        if (place.where == ProgramPlace::Argument) all.insert(static_cast<size_t>(place.at));
      }
    }
  }
  return {all.begin(), all.end()};
}

std::shared_ptr<const Program::Constants> Program::make_constants() const {
  auto made = std::make_shared<Constants>();
  for (size_t i = 0; i < parts_.arrays.size(); ++i) {
    const NDArray& a = parts_.arrays[i];
    made->arrays.push_back(on_gpu_ && is_read_[i] ? a.to_device(device()) : a);
    made->addresses.push_back(made->arrays.back().address());
  }
  for (const ProgramStep& step : parts_.steps) {
    for (const ProgramVariant& variant : step.variants) {
      std::vector<NDArray>& own = made->of_variants.emplace_back(variant.places.size());
      for (size_t i = 0; i < own.size(); ++i) {
        const ProgramPlace place = variant.places[i];
        if (place.where == ProgramPlace::Array)
          own[i] = made->arrays[static_cast<size_t>(place.at)];
      }
    }
  }
  return made;
}

int64_t Program::prepared_bytes() const {
  std::set<const PreparedSets*> counted;
  int64_t bytes = 0;
  for (const ProgramStep& step : parts_.steps) {
    for (const ProgramVariant& variant : step.variants) {
      const bool is_new = counted.insert(runtime_of(variant.kernel).prepared.get()).second;
      bytes += is_new ? variant.kernel.persistent_bytes() : 0;
    }
  }
  return bytes;
}

Program::Frame::Frame(Program& of) : program(of) {
  if (!of.on_gpu_) {
    constants = of.constants_.get();
  } else {
    const std::lock_guard lock(of.mutex_);
    if (!of.constants_) of.constants_ = of.make_constants();
    held = of.constants_;
    constants = held.get();
  }
  if (of.parts_.arena_bytes == 0) return;
  arena = of.arenas_.take([&] { return NDArray::empty({of.parts_.arena_bytes}, u8, of.device()); });
}

Program::Frame::~Frame() {
  if (arena.defined()) program.arenas_.give_back(std::move(arena));
}

std::vector<int64_t> Program::sizes_of(std::span<const NDArray> arrays) const {
  check_arguments(parts_.name, written_, arrays, on_gpu_);
  std::vector<int64_t> values(parts_.sizes.size());
  if (!values.empty()) {
    read_sizes(parts_.name, parts_.sizes, parts_.args, arrays,
               [&](size_t i, int64_t value) { values[i] = value; });
  }
  check_views(parts_.name, parts_.args, parts_.views, values);
  return values;
}

void Program::call(std::span<const NDArray> arrays) { call(arrays, /*expected=*/false); }

void Program::expect(std::span<const NDArray> arrays) { call(arrays, /*expected=*/true); }

void Program::call(std::span<const NDArray> arrays, bool expected) {
  const Device where = check_arguments(parts_.name, written_, arrays, on_gpu_);
  check_apart(parts_.name, written_, arrays, apart_);
  StackArray<int64_t, 8> sizes(parts_.sizes.size());
  if (!parts_.sizes.empty()) {
    read_sizes(parts_.name, parts_.sizes, parts_.args, arrays,
               [&](size_t i, int64_t value) { sizes[i] = value; });
  }
  check_views(parts_.name, parts_.args, parts_.views, sizes.span());
  if (!on_gpu_ || (parts_.graphs == 0 && where.is_cuda())) {
    if (!expected) run(arrays, sizes.span(), where);
    return;
  }
  if (where.is_cuda() && where != device())
    throw_runtime_error("the arrays are on " + to_string(where) + ", and the buffers of '" +
                            parts_.name + "' are on " + to_string(device()),
                        {}, "move them: to_device()");
  const bool graphs = !trials_ || !trials_->open();
  const auto run_here = [&](std::span<const NDArray> here) { run(here, sizes.span(), device()); };
  if (!expected) return calls_->call(parts_.args, arrays, run_here, graphs);
  if (graphs) calls_->expect(parts_.args, arrays, run_here);
}

void Program::run(std::span<const NDArray> arrays, std::span<const int64_t> sizes, Device where) {
  const cuda::OneCall one;
  if (parts_.direct) {
    return facts_[parts_.steps[0].selector.at(sizes)].kernel->call(arrays, sizes, where);
  }
  const Frame frame(*this);
  StackArray<void*, 32> arguments(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i)
    arguments[i] = KernelRuntime::address_for(written_[i], arrays[i]);
  StackArray<void*, 32> views(parts_.views.size());
  for (size_t i = 0; i < views.span().size(); ++i)
    views[i] = parts_.views[i].address(arguments[parts_.views[i].argument], sizes);
  CallAddresses addresses{.arguments = arguments.span(),
                          .views = views.span(),
                          .arena = static_cast<char*>(frame.arena.address()),
                          .arrays = frame.constants->addresses,
                          .sizes = sizes,
                          .turns = parts_.turns};
  const auto run_step = [&](size_t s, size_t v) {
    run_variant(parts_.steps[s].variants[v], first_[s] + v, addresses, arrays, frame, where);
  };
  if (!trials_ || !trials_->run(where, run_step)) {
    run_steps(parts_.loops, parts_.steps.size(), addresses,
              [&](size_t s) { run_step(s, parts_.steps[s].selector.at(sizes)); });
  }
  if (!where.is_cuda()) return;
  cuda::keep_in_capture(where.index, arrays);
  cuda::keep_for_launches(where.index, frame.held);
}

void Program::run_variant(const ProgramVariant& variant, size_t number,
                          const CallAddresses& addresses, std::span<const NDArray> arrays,
                          const Frame& frame, Device where) {
  Facts& facts = facts_[number];
  KernelRuntime& kernel = *facts.kernel;
  if (!on_gpu_ && !facts.read.load(std::memory_order_acquire)) {
    for (size_t i = 0; i < variant.places.size(); ++i) {
      for (const ProgramPlace& place : parts_of(variant.places[i])) {
        if (place.where == ProgramPlace::Array && !kernel.code->args[i].only_prepared)
          internal::kept(parts_.arrays[static_cast<size_t>(place.at)]);
      }
    }
    facts.read.store(true, std::memory_order_release);
  }
  StackArray<void*, 32> parameters(kernel.num_parameters());
  addresses.fill(variant.places, parameters.data());
  StackArray<int64_t, 8> sizes(variant.sizes.size());
  for (size_t i = 0; i < variant.sizes.size(); ++i) sizes[i] = addresses.sizes[variant.sizes[i]];
  auto* const scratch = static_cast<char*>(addresses.of(variant.scratch));
  if (!facts.prepares_arguments) {
    const std::vector<NDArray>& constants = frame.constants->of_variants[number];
    return kernel.run(parameters.data(), sizes.span(), constants, where, nullptr, scratch);
  }
  kernel.run(parameters.data(), sizes.span(), constants_of(variant, number, frame, arrays), where,
             nullptr, scratch);
}

std::vector<NDArray> Program::constants_of(const ProgramVariant& variant, size_t number,
                                           const Frame& frame,
                                           std::span<const NDArray> arrays) const {
  std::vector<NDArray> all = frame.constants->of_variants[number];
  for (size_t i = 0; i < all.size(); ++i) {
    const ProgramPlace place = variant.places[i];
    if (place.where == ProgramPlace::Argument && variant.kernel.args()[i].constant)
      all[i] = arrays[static_cast<size_t>(place.at)];
  }
  return all;
}

StepArgs Program::args_of(const ProgramVariant& variant, std::span<const NDArray> arrays,
                          const Frame& frame, std::span<const int64_t> sizes, int64_t runs) const {
  StepArgs all{{}, {}, runs};
  for (const size_t size : variant.sizes) all.sizes.push_back(sizes[size]);
  std::vector<void*> arguments, views;
  for (const NDArray& a : arrays) arguments.push_back(a.address());
  for (const ProgramView& v : parts_.views)
    views.push_back(v.address(arguments[v.argument], sizes));
  // Those of the first turn of a loop.
  const CallAddresses addresses{.arguments = arguments,
                                .views = views,
                                .arena = static_cast<char*>(frame.arena.address()),
                                .arrays = frame.constants->addresses,
                                .sizes = sizes,
                                .turns = parts_.turns,
                                .count = runs};
  for (size_t i = 0; i < variant.places.size(); ++i) {
    const auto at = static_cast<size_t>(variant.places[i].at);
    if (variant.places[i].where == ProgramPlace::Argument) {
      all.arrays.push_back(arrays[at]);
    } else if (variant.places[i].where == ProgramPlace::Array) {
      all.arrays.push_back(frame.constants->arrays[at]);
    } else {
      const KernelArg& arg = variant.kernel.args()[i];
      Extents shape = arg.shape;
      set_extents(shape, arg.symbolic, all.sizes);
      all.arrays.push_back(
          NDArray::wrap(addresses.of(variant.places[i]), std::move(shape), arg.dtype, device()));
    }
  }
  return all;
}

void Program::prepare(std::span<const NDArray> arrays) {
  const Device where = check_constants(parts_.name, parts_.args, arrays, on_gpu_);
  const bool any = std::any_of(parts_.args.begin(), parts_.args.end(),
                               [](const KernelArg& a) { return a.constant; });
  if (parts_.graphs > 0 && on_gpu_ && any && where.is_cpu()) {
    throw_user_error("a network on a GPU prepares constants that are there", {},
                     "pass to_device(Device::cuda()), or declare them with constant(array)");
  }
  const Device there = where.is_cpu() ? device() : where;
  const Frame frame(*this);
  for (size_t s = 0; s < parts_.steps.size(); ++s) {
    for (size_t v = 0; v < parts_.steps[s].variants.size(); ++v) {
      const ProgramVariant& variant = parts_.steps[s].variants[v];
      KernelRuntime& kernel = *facts_[first_[s] + v].kernel;
      if (kernel.has_prepare())
        kernel.prepare(constants_of(variant, first_[s] + v, frame, arrays), there);
      if (!kernel.cuda) continue;
      if (!kernel.bound.empty()) kernel.bound_on(there);
      if (!kernel.code->cuda->launches.empty()) kernel.cuda->load(there.index);
    }
  }
}

void Program::prepare() {
  for (const KernelArg& arg : parts_.args) {
    if (!arg.constant) continue;
    throw_user_error(
        "kernel '" + parts_.name + "' does not have the values of its constant '" + arg.name + "'",
        {}, "pass the arrays to prepare, or declare it with constant(array)");
  }
  prepare(std::vector<NDArray>(parts_.args.size()));
}

Profile Program::profile(const std::vector<NDArray>& arrays, double seconds) {
  check_arguments(parts_.name, written_, arrays, on_gpu_);
  std::vector<NDArray> used = arrays;
  if (on_gpu_ && !used.empty() && used[0].device().is_cpu()) {
    for (NDArray& a : used) a = a.to_device(device());
  }
  const StepCalls of_steps(*this, used);
  std::vector<ProfiledStep> steps;
  for (size_t s = 0; s < parts_.steps.size(); ++s) {
    const ProgramStep& step = parts_.steps[s];
    const ProgramVariant& variant = step.variants[step.selector.at(of_steps.sizes())];
    steps.push_back({step.name, variant.kernel, of_steps.args()[s]});
  }
  const Profile profile = profile_steps(steps, [&] { call(used); }, seconds);
  for (size_t i = 0; i < used.size(); ++i) {
    if (written_[i].output && used[i].data() != arrays[i].data()) arrays[i].copy_from(used[i]);
  }
  return profile;
}

void Program::refresh() {
  if (on_gpu_) calls_->forget();
  for (const ProgramStep& step : parts_.steps) {
    for (const ProgramVariant& variant : step.variants) variant.kernel.refresh();
  }
  if (!on_gpu_) return;
  const std::lock_guard lock(mutex_);
  constants_ = nullptr;
}

Program::StepCalls::StepCalls(Program& program, std::span<const NDArray> arrays)
    : frame_(program), sizes_(program.sizes_of(arrays)) {
  const std::vector<int64_t> runs = program.runs_of_steps(sizes_);
  for (const ProgramStep& step : program.parts_.steps)
    args_.push_back(program.args_of(step.variants[0], arrays, frame_, sizes_, runs[args_.size()]));
}

// What a kernel has in common with programs of several kernels.
void Kernel::prepare(std::span<const NDArray> arrays) const {
  Program(one_step({*this})).prepare(arrays);
}
void Kernel::prepare() const { Program(one_step({*this})).prepare(); }
Profile Kernel::profile(const std::vector<NDArray>& arrays, double seconds) const {
  return Program(one_step({*this})).profile(arrays, seconds);
}

}  // namespace heddle
