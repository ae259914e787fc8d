// What a call has to compute and to move, for comparison with what the machine can do.
#include <algorithm>

#include "driver/program_args.h"
#include "driver/roof.h"
#include "heddle/dag/attention.h"
#include "heddle/ir/simplify.h"

namespace heddle::driver {
namespace {

/// The share of its keys that a row of attention needs, on average. Kernels skip the others.
double share_of_keys(const ComputeDag& dag, const Attention& a) {
  if (!a.reach.defined()) return 1;
  constexpr int64_t kRows = 64;  // that are looked at; rows after each need as many keys or more
  const Axis& row = dag.stage(a.weighted).axes()[static_cast<size_t>(a.row)];
  double keys = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    Ranges at;
    at.set(row.var(), {i * a.rows / kRows, i * a.rows / kRows});
    keys += static_cast<double>(std::clamp<int64_t>(range_of(a.reach, at).min, 0, a.keys));
  }
  return keys / static_cast<double>(kRows * a.keys);
}

/// The arithmetic of each stage that a call cannot leave out.
std::vector<double> needed_flops(const ComputeDag& dag) {
  std::vector<double> flops;
  for (int s = 0; s < dag.size(); ++s)
    flops.push_back(dag.info(s).precomputable ? 0 : dag.info(s).flops);
  for (int s = 0; s < dag.size(); ++s) {
    const std::optional<Attention> a = find_attention(dag, s);
    if (!a) continue;
    const double share = share_of_keys(dag, *a);
    flops[static_cast<size_t>(s)] *= share;
    for (const int fused : a->fused) flops[static_cast<size_t>(fused)] *= share;
  }
  return flops;
}

/// The type of whose arithmetic a call is made of: that of its products if they are of integers, whatever
/// follows them, else the shortest float, whose units are the fastest.
DataType type_of_work(const ComputeDag& dag) {
  for (int s = 0; s < dag.size(); ++s) {
    const DataType type = dag.stage(s).output(0).dtype();
    if (dag.info(s).stage_class == StageClass::ComplexReduction && !type.is_float() &&
        !dag.info(s).precomputable)
      return type;
  }
  const std::vector<DataType> floats = float_types(dag);
  return floats.empty() ? dag.outputs()[0].dtype() : floats[0];
}

}  // namespace

std::vector<DataType> float_types(const ComputeDag& dag) {
  std::vector<DataType> types;
  for (int s = 0; s < dag.size(); ++s) {
    for (int o = 0; o < dag.stage(s).num_outputs(); ++o) {
      const DataType type = dag.stage(s).output(o).dtype();
      if (type.is_float() && std::ranges::count(types, type) == 0) types.push_back(type);
    }
  }
  std::ranges::stable_sort(types, {}, &DataType::bits);
  return types;
}

KernelWork work_of(const ComputeDag& dag, const Target& target) {
  KernelWork work;
  for (const double flops : needed_flops(dag)) work.flops += flops;
  work.bytes = static_cast<double>(dag.compulsory_bytes());
  work.roof = [target, dtype = type_of_work(dag), bytes = work.bytes] {
    return roof_of(target, dtype, bytes);
  };
  return work;
}

}  // namespace heddle::driver
