#include "family/near.h"

#include <algorithm>
#include <optional>

#include "driver/constant_schedule.h"
#include "driver/program_args.h"
#include "family/lanes.h"
#include "heddle/driver/build.h"
#include "heddle/family/schedule.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"

namespace heddle::family {
namespace {

constexpr int64_t kWidest = 8;  // elements of 16 bits in 16 bytes
// Of shorter rows, most of the vectors have elements that are left out (softmax of 4096 rows on an
// H200, us: rows of 58 take 1.6 by single elements and 2.2 by vectors, those of 2603 60 and 32).
constexpr int64_t kShortRow = 256;
// Which vectors are best for rows below this, a race finds out.
constexpr int64_t kLongRow = 1024;

/// Every size larger by `by`, where its range allows that; nullopt where nothing changes.
std::optional<std::vector<SizeValue>> moved(std::vector<SizeValue> at, int64_t by) {
  bool changed = false;
  for (SizeValue& v : at) {
    const int64_t to = std::clamp(v.value + by, v.size->size->lo, v.size->size->hi);
    changed |= to != v.value;
    v.value = to;
  }
  if (!changed && by != 0) return std::nullopt;
  return at;
}

/// The schedule and its arguments for all sizes.
std::pair<Schedule, std::vector<Tensor>> with_args(const Schedule& one,
                                                   const std::vector<Tensor>& outputs) {
  Schedule made = for_all_sizes(one, outputs);
  std::vector<Tensor> args = made.dag().direct().placeholders();
  args.insert(args.end(), made.dag().outputs().begin(), made.dag().outputs().end());
  return {std::move(made), std::move(args)};
}

/// Whether a schedule of a CPU holds for all sizes. Where the region of a tile depends on a size,
/// lowering makes several statements of it, which are no product of tiles.
bool holds(const Schedule& one, const std::vector<Tensor>& outputs) {
  try {
    const auto [all, args] = with_args(one, outputs);
    (void)lower(all, args);
    return true;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return false;
  }
}

/// The program for all sizes. Null where the schedule does not hold for all of them, which lowering
/// finds out: the lanes of a warp may have no shares that hold.
std::optional<GpuProgram> lowered_for_all_sizes(const Schedule& one,
                                                const std::vector<Tensor>& outputs) {
  try {
    const auto [all, args] = with_args(one, outputs);
    return lower_gpu(all, args, {.name = "family"});
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return std::nullopt;
  }
}

/// Whether all threads of a block reach each barrier: none is in a loop or a branch that depends on
/// more than the sizes of the call.
bool reaches_barriers(const Stmt& s, bool together = true) {
  if (!s) return true;
  if (s.as<Sync>()) return together;
  if (const For* f = s.as<For>())
    together &= as_int(f->extent) || is_symbolic(f->extent) || is_block(f->loop);
  if (const If* i = s.as<If>()) {
    together &= !any_below(i->condition, [](const Expr& e) {
      const VarNode* v = e.as<VarNode>();
      return e.kind() == ExprKind::Load || (v && !v->size);
    });
  }
  bool all = true;
  map_children(
      s,
      [&](const Stmt& c) {
        all &= reaches_barriers(c, together);
        return c;
      },
      [](const Expr& e) { return e; });
  return all;
}

/// Whether rows of all sizes, which begin anywhere, are read by vectors.
bool aligns_rows(const GpuProgram& program) {
  const std::vector<GpuKernel>& kernels = program.main;
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const GpuKernel& k) { return k.aligns_rows; }) &&
         std::all_of(kernels.begin(), kernels.end(),
                     [](const GpuKernel& k) { return reaches_barriers(k.body); });
}

/// The sizes nearest to `at` that are multiples of `factor` and of nothing wider, where there are
/// such. A size that happens to be a multiple of wide accesses says nothing about others.
std::vector<SizeValue> multiples_near(std::vector<SizeValue> at, int64_t factor) {
  for (SizeValue& v : at) {
    const int64_t lo = v.size->size->lo, hi = v.size->size->hi;
    if (v.value < factor) continue;
    const int64_t step = factor == kWidest ? factor : 2 * factor;
    const int64_t up = factor == 1 ? 0 : step / 2;
    int64_t near = factor + std::max<int64_t>(0, v.value - factor + up) / step * step;
    if (near > hi) near -= step;
    if (near >= lo) v.value = near;
  }
  return at;
}

/// Warp groups are among the instructions that only this architecture has.
Target without_warp_groups(Target target) {
  target.gpu.arch = target.gpu.portable_arch();
  return target;
}

Target without_matrix_unit(Target target) {
  for (const char* feature : {"amx-fp16", "amx-bf16", "amx-int8"}) {
    if (!target.has(feature)) continue;
    target.features += std::string(target.features.empty() ? "-" : ",-") + feature;
  }
  return target;
}

/// Times as many elements in a row, and odd, so that no vectors fill it.
std::vector<SizeValue> with_longer_rows(std::vector<SizeValue> at) {
  constexpr int64_t kLonger = 4;
  for (SizeValue& v : at)
    v.value = std::min((v.value * kLonger) | 1, v.size->size->hi - (v.size->size->hi + 1) % 2);
  return at;
}

Schedule schedule_at(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& sizes,
                     const Target& target, const AutoSchedulerOptions& options) {
  return driver::constant_schedule(at_sizes(outputs, sizes).outputs, target, options);
}

using ChooseAt = FunctionRef<Schedule(const std::vector<SizeValue>&, const Target&)>;

NearChoice choice_on_cpu(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                         const Target& target, const ChooseAt& choose) {
  for (const int64_t by : {0, -1, 1, -2, 2, -3, 3}) {
    const std::optional<std::vector<SizeValue>> sizes = moved(at, by);
    if (!sizes) continue;
    Schedule one = choose(*sizes, target);
    const bool tiles = driver::uses_tiles(one);
    if (by != 0 && !tiles) continue;
    if (!tiles || holds(one, outputs)) return {*sizes, std::move(one)};
  }
  return {at, choose(at, without_matrix_unit(target))};
}

/// A choice for a GPU, and its program for all sizes where that was needed to choose.
struct GpuChoice {
  NearChoice near;
  std::optional<GpuProgram> program = {};
};

GpuChoice choice_on_gpu(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                        const Target& target, const ChooseAt& choose) {
  Schedule one = choose(at, target);
  if (!target.gpu.has_wgmma()) return {{at, std::move(one)}};
  std::optional<GpuProgram> program = lowered_for_all_sizes(one, outputs);
  if (!program) return {{at, choose(at, without_warp_groups(target))}};
  return {{at, std::move(one)}, std::move(program)};
}

/// choice_near, with alternatives where the options have them.
NearChoice choice_among_all(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                            const Target& target, const AutoSchedulerOptions& options) {
  const auto choose = [&](const std::vector<SizeValue>& sizes, const Target& t) {
    return schedule_at(outputs, sizes, t, options);
  };
  if (target.is_cuda()) return choice_on_gpu(outputs, at, target, choose).near;
  constexpr int kTries = 5;
  NearChoice near = choice_on_cpu(outputs, at, target, choose);
  if (!divides_in_lanes(near.schedule, outputs)) return near;
  std::vector<SizeValue> longer = at;
  for (int i = 0; i < kTries; ++i) {
    longer = with_longer_rows(std::move(longer));
    NearChoice other = choice_on_cpu(outputs, longer, target, choose);
    if (!divides_in_lanes(other.schedule, outputs)) return other;
  }
  return near;
}

}  // namespace

std::string sizes_text(const std::vector<SizeValue>& at) {
  std::string text;
  for (const SizeValue& v : at)
    text += (text.empty() ? "" : ", ") + v.size->name + " = " + std::to_string(v.value);
  return text;
}

NearChoice choice_near(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                       const Target& target, const AutoSchedulerOptions& options) {
  AutoSchedulerOptions direct = options;
  direct.use_alternatives = false;
  return choice_among_all(outputs, at, target, direct);
}

std::vector<NearChoice> choices_for_range(const std::vector<Tensor>& outputs,
                                          const std::vector<SizeValue>& point, const Target& target,
                                          const AutoSchedulerOptions& options) {
  if (!target.is_cuda()) return {choice_among_all(outputs, point, target, options)};
  int64_t shortest = point.empty() ? kLongRow : point[0].value;
  for (const SizeValue& v : point) shortest = std::min(shortest, v.value);
  std::vector<NearChoice> choices;
  const auto choose = [&](const std::vector<SizeValue>& sizes, const Target& t) {
    return schedule_at(outputs, sizes, t, options);
  };
  for (int64_t factor = kWidest; factor > 1; factor /= 2) {
    if (factor < kWidest && shortest >= kLongRow) break;
    GpuChoice c = choice_on_gpu(outputs, multiples_near(point, factor), target, choose);
    if (!c.program) c.program = lowered_for_all_sizes(c.near.schedule, outputs);
    if (c.program && aligns_rows(*c.program) && holds(c.near.schedule, outputs))
      choices.push_back(std::move(c.near));
  }
  if (choices.empty() || shortest < kLongRow) {
    const auto at = shortest < kShortRow ? choices.begin() : choices.end();
    choices.insert(at, choice_among_all(outputs, multiples_near(point, 1), target, options));
  }
  return choices;
}

NearChoice choice_for_range(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& point,
                            const Target& target, const AutoSchedulerOptions& options) {
  if (!target.is_cuda() && options.use_alternatives && sizes_of(outputs).size() == 1) {
    NearChoice near = choice_among_all(outputs, point, target, options);
    if (near.schedule.dag().alternative().empty() || holds(near.schedule, outputs)) return near;
  }
  AutoSchedulerOptions direct = options;
  direct.use_alternatives = false;
  std::vector<NearChoice> choices = choices_for_range(outputs, point, target, direct);
  return std::move(choices.front());
}

}  // namespace heddle::family
