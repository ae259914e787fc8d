#include "network/passes/product_chain.h"

#include <algorithm>

namespace heddle::network {

bool is_private(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  return !dag.stage(s).is_placeholder() && dag.stage(s).num_outputs() == 1 && !info.is_output &&
         info.consumers.size() == 1 && !info.precomputable && !info.scan;
}

bool follows(const ComputeDag& dag, int reader, int s) {
  const Operation& op = dag.stage(reader);
  if (op.is_placeholder() || op.is_reduction() || op.num_outputs() != 1) return false;
  if (op.output(0).extents() != dag.stage(s).output(0).extents()) return false;
  const std::vector<Access>& reads = dag.info(reader).reads;
  return std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
    return a.producer != s || a.pattern == AccessPattern::Elementwise;
  });
}

bool depends_on(const ComputeDag& dag, int s, int on) {
  std::vector<int> todo{s};
  std::vector<char> seen(static_cast<size_t>(dag.size()));
  while (!todo.empty()) {
    const int at = todo.back();
    todo.pop_back();
    if (at == on) return true;
    for (const int p : dag.info(at).producers) {
      if (p < on || seen[static_cast<size_t>(p)]) continue;  // producers come first
      seen[static_cast<size_t>(p)] = 1;
      todo.push_back(p);
    }
  }
  return false;
}

namespace {

/// chain_to, for chains of up to `most` stages.
std::vector<int> short_chain_to(const ComputeDag& dag, int s, int most) {
  if (most == 0 || !is_private(dag, s)) return {};
  if (dag.info(s).stage_class == StageClass::ComplexReduction) return {s};
  for (const int p : dag.info(s).producers) {
    if (!follows(dag, s, p)) continue;
    std::vector<int> chain = short_chain_to(dag, p, most - 1);
    if (chain.empty()) continue;
    chain.push_back(s);
    return chain;
  }
  return {};
}

}  // namespace

std::vector<int> chain_to(const ComputeDag& dag, int s) {
  constexpr int kMostStages = 128;
  return short_chain_to(dag, s, kMostStages);
}

}  // namespace heddle::network
