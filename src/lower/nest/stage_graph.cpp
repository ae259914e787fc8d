#include "lower/nest/stage_graph.h"

#include <algorithm>
#include <functional>

#include "lower/nest/build_nest.h"

namespace heddle::lowering {

std::vector<int> topological_stages(const ScheduleState& state) {
  std::vector<int> order;
  std::vector<char> seen(state.stages.size(), 0);
  std::function<void(int)> go = [&](int s) {
    if (s < 0 || seen[s]) return;
    seen[s] = 1;
    for (const Expr& body : state.stages[s].bodies) {
      visit(body, [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) go(state.stage_of(load->buffer));
      });
    }
    order.push_back(s);
  };
  // Stages whose loops have followers come before the readers of the followers, because a follower
  // has its value when the loop has ended.
  for (const StageState& x : state.stages) {
    if (x.defined() && x.along >= 0) go(state.axes[static_cast<size_t>(x.along)].stage);
  }
  for (size_t i = 0; i < state.stages.size(); ++i) {
    if (state.stages[i].defined() && state.stages[i].placement != Placement::Inlined)
      go(static_cast<int>(i));
  }
  return order;
}

StageGraph::StageGraph(const ScheduleState& s)
    : s_(s),
      on_gpu_(
          std::any_of(s.axes.begin(), s.axes.end(),
                      [](const AxisState& a) { return is_block(a.loop) || is_thread(a.loop); })),
      order_(topological_stages(s)),
      readers_(s.stages.size()),
      axes_(s.stages.size()) {
  for (size_t id = 0; id < s.axes.size(); ++id) {
    if (s.axes[id].defined) axes_[s.axes[id].stage].push_back(static_cast<int>(id));
  }
  for (int st : order_) {
    for (const Buffer& b : s.stages[st].buffers) stage_of_[b.get()] = st;
  }
  for (int st : order_) {
    for (const Expr& body : s.stages[st].bodies) {
      visit(body, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        if (!load) return;
        auto& r = readers_[stage_of_.at(load->buffer.get())];
        if (r.empty() || r.back() != st) r.push_back(st);
      });
    }
  }
}

int StageGraph::stage_of(const Buffer& buffer) const {
  const auto it = stage_of_.find(buffer.get());
  return it == stage_of_.end() ? -1 : it->second;
}

bool StageGraph::depends_on(int st, int producer) const {
  std::vector<bool> seen(readers_.size());
  std::vector<int> todo{
      producer};  // each stage is visited once, because there may be very many paths
  while (!todo.empty()) {
    const int x = todo.back();
    todo.pop_back();
    if (x == st) return true;
    if (seen[static_cast<size_t>(x)]) continue;
    seen[static_cast<size_t>(x)] = true;
    todo.insert(todo.end(), readers_[x].begin(), readers_[x].end());
  }
  return false;
}

bool StageGraph::follows(int p, int host) const {
  const int along = stage(p).along;
  return along >= 0 && s_.axes[along].stage == host;
}

bool StageGraph::runs_inside(int q, int host, size_t n) const {
  while (q >= 0 && q != host) {
    const StageState& x = stage(q);
    if (follows(q, host)) return s_.leaf_position(x.along) >= static_cast<int>(n);
    if (x.placement != Placement::At) return false;
    if (x.at_stage == host) {
      const auto& leaves = stage(host).leaves;
      size_t at = std::find(leaves.begin(), leaves.end(), x.at_axis) - leaves.begin();
      return at >= n && at < leaves.size();
    }
    q = x.at_stage;
  }
  return q == host;
}

bool StageGraph::kept_around(int p, int host, size_t n) const {
  const int axis = stage(p).store_axis;
  if (axis < 0) return false;
  const int keeper = s_.axes[axis].stage;
  if (keeper == host) return s_.leaf_position(axis) < static_cast<int>(n);
  return !runs_inside(keeper, host, n);
}

size_t StageGraph::first_leaf(const std::vector<int>& leaves, int id) const {
  const AxisState& a = s_.axes[id];
  if (a.split_outer >= 0)
    return std::min(first_leaf(leaves, a.split_outer), first_leaf(leaves, a.split_inner));
  if (a.fused_into >= 0) return first_leaf(leaves, a.fused_into);
  return std::find(leaves.begin(), leaves.end(), id) - leaves.begin();
}

}  // namespace heddle::lowering
