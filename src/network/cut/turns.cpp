// Which stages are computed in the turns of loops, and what is computed before them.
#include <algorithm>
#include <unordered_map>

#include "ir/sizes.h"
#include "network/cut/loops.h"
#include "network/cut/step_plan.h"

namespace heddle::network {
namespace {

/// A sum of sizes, at `at`, or at the largest sizes where they are not given.
double value_of(const Expr& sum, const std::vector<SizeValue>& at) {
  std::vector<Var> sizes;
  add_sizes(sum, &sizes);
  std::vector<int64_t> values;
  for (const Var& size : sizes) {
    const auto given = std::find_if(at.begin(), at.end(),
                                    [&](const SizeValue& v) { return v.size.same_as(size); });
    values.push_back(given == at.end() ? size->size->hi : given->value);
  }
  return static_cast<double>(size_sum(sum, sizes).at(values));
}

/// What turns read that are not stored before them.
class BeforeTurns {
 public:
  BeforeTurns(const std::vector<int>& loops, const ComputeDag& graph, FusionPlan& plan)
      : loops_(loops), graph_(graph), plan_(plan), seen_(loops.size()) {}

  /// Stores what stage `s` reads, or what is computed within that.
  void store_read_by(int s) {
    for (const int p : graph_.info(s).producers) {
      const auto at = static_cast<size_t>(p);
      if (loops_[at] >= 0 || seen_[at] != 0 || graph_.stage(p).is_placeholder() ||
          graph_.info(p).precomputable || plan_.read_from_memory(p))
        continue;
      seen_[at] = 1;
      if (plan_.dag().info(p).flops == 0 && !graph_.info(p).is_output) {
        store_read_by(p);
      } else {
        plan_.set(p, graph_.stage(p).is_reduction() ? Place::ClosedByChoice : Place::Stored);
      }
    }
  }

 private:
  const std::vector<int>& loops_;
  const ComputeDag& graph_;
  FusionPlan& plan_;
  std::vector<char> seen_;
};

}  // namespace

std::vector<int> loops_of_stages(const std::vector<Repeat>& repeats, const ComputeDag& graph) {
  std::unordered_map<const Operation*, int> begins;
  for (size_t r = 0; r < repeats.size(); ++r) {
    for (const Repeat::Slice& s : repeats[r].slices) begins[s.row.op()] = static_cast<int>(r);
    for (const Repeat::State& s : repeats[r].states) begins[s.before.op()] = static_cast<int>(r);
  }
  std::vector<int> loops;
  for (int s = 0; s < graph.size(); ++s) {
    const auto begin = begins.find(&graph.stage(s));
    int loop = begin == begins.end() ? -1 : begin->second;
    for (const int p : graph.info(s).producers) {
      const int other = loops[static_cast<size_t>(p)];
      if (other < 0) continue;
      if (loop >= 0 && loop != other)
        fail_loop(repeats[static_cast<size_t>(other)],
                  "a turn reads what differs between the turns of '" +
                      repeats[static_cast<size_t>(loop)].name + "'",
                  "only rows of all turns and last values are read behind a loop");
      loop = other;
    }
    loops.push_back(loop);
  }
  return loops;
}

std::vector<double> runs_of_stages(const std::vector<Repeat>& repeats, const ComputeDag& graph,
                                   const std::vector<SizeValue>& at) {
  std::vector<double> runs;
  if (repeats.empty()) return runs;
  for (const int loop : loops_of_stages(repeats, graph))
    runs.push_back(loop < 0 ? 1 : value_of(repeats[static_cast<size_t>(loop)].turns, at));
  return runs;
}

void compute_before_turns(const std::vector<Repeat>& repeats, const ComputeDag& graph,
                          FusionPlan& plan) {
  if (repeats.empty()) return;
  const std::vector<int> loops = loops_of_stages(repeats, graph);
  BeforeTurns before(loops, graph, plan);
  for (int s = 0; s < graph.size(); ++s) {
    if (loops[static_cast<size_t>(s)] >= 0) before.store_read_by(s);
  }
}

}  // namespace heddle::network
