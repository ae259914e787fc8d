#include "driver/family_near.h"

#include <algorithm>
#include <optional>

#include "driver/program_args.h"
#include "heddle/driver/build.h"
#include "heddle/driver/family.h"
#include "heddle/support/error.h"

namespace heddle::family {
namespace {

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

bool uses_matrix_unit(const Schedule& s) {
  return std::any_of(s.steps().begin(), s.steps().end(),
                     [](const Step& step) { return step.kind == StepKind::Tensorize; });
}

bool holds(const Schedule& one, FunctionRef<void(const Schedule&)> check) {
  try {
    check(one);
    return true;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return false;
  }
}

/// The lanes of a warp may have no shares that hold for all sizes, which lowering finds out.
bool lowers_for_all_sizes(const Schedule& one, const std::vector<Tensor>& outputs) {
  try {
    const Schedule made = for_all_sizes(one, outputs);
    std::vector<Tensor> args = made.dag().direct().placeholders();
    args.insert(args.end(), made.dag().outputs().begin(), made.dag().outputs().end());
    (void)lower_for_gpu(made, args, {.name = "family"});
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// sm_90 is sm_90a without the instructions of warp groups.
Target without_warp_groups(Target target) {
  target.gpu.arch.pop_back();
  return target;
}

Target without_matrix_unit(Target target) {
  for (const char* feature : {"amx-fp16", "amx-bf16", "amx-int8"}) {
    if (!target.has(feature)) continue;
    target.features += std::string(target.features.empty() ? "-" : ",-") + feature;
  }
  return target;
}

}  // namespace

std::string sizes_text(const std::vector<SizeValue>& at) {
  std::string text;
  for (const SizeValue& v : at)
    text += (text.empty() ? "" : ", ") + v.size->name + " = " + std::to_string(v.value);
  return text;
}

std::vector<SizeValue> without_lucky_sizes(std::vector<SizeValue> at, const Target& target) {
  for (SizeValue& v : at) {
    if (target.is_cuda() && v.value % 2 == 0 && v.value > v.size->size->lo) --v.value;
  }
  return at;
}

NearChoice choice_near(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                       const Target& target, const AutoSchedulerOptions& options,
                       FunctionRef<void(const Schedule&)> check) {
  const auto choose = [&](const std::vector<SizeValue>& sizes, const Target& t) {
    return create_schedule(at_sizes(outputs, sizes).outputs, t, options);
  };
  if (target.is_cuda()) {
    Schedule one = choose(at, target);
    const bool plain = target.gpu.has_wgmma() && !lowers_for_all_sizes(one, outputs);
    return {at, plain ? choose(at, without_warp_groups(target)) : std::move(one)};
  }
  for (const int64_t by : {0, -1, 1, -2, 2, -3, 3}) {
    const std::optional<std::vector<SizeValue>> sizes = moved(at, by);
    if (!sizes) continue;
    Schedule one = choose(*sizes, target);
    const bool tiles = uses_matrix_unit(one);
    if (by != 0 && !tiles) continue;
    if (!tiles || holds(one, check)) return {*sizes, std::move(one)};
  }
  return {at, choose(at, without_matrix_unit(target))};
}

NearChoice choice_near(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                       const Target& target, const AutoSchedulerOptions& options) {
  AutoSchedulerOptions direct = options;
  direct.use_alternatives = false;
  return choice_near(outputs, at, target, direct,
                     [&](const Schedule& one) { (void)for_all_sizes(one, outputs); });
}

}  // namespace heddle::family
