// Which nodes are turns of loops, and the order of nodes and loops.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "heddle/support/error.h"
#include "network/cut/loops.h"
#include "network/cut/step_plan.h"

namespace heddle::network {
namespace {

/// The order of nodes and loops. A unit is a node that is in no loop, or a loop.
class Units {
 public:
  Units(const std::vector<Repeat>& repeats, const std::vector<Tensor>& outputs,
        const std::vector<Tensor>& declared, const std::vector<ExtractedNode>& nodes)
      : repeats_(repeats), nodes_(nodes), unit_(nodes.size()), waits_(repeats.size()) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const Tensor& t : nodes[n].outputs) writers_[t.op()].push_back(n);
    }
    find_loops();
    waits_.resize(repeats.size() + nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const Tensor& t : nodes[n].inputs) add_edges(t, unit_[n]);
    }
    for (size_t r = 0; r < repeats.size(); ++r) {
      for (const Tensor& t : repeats[r].computed()) {
        const int at = position_of(declared, t);
        HEDDLE_ICHECK(at >= 0, "what a loop reads is an output");
        add_edges(outputs[static_cast<size_t>(at)], r);
      }
    }
  }

  /// The nodes in order.
  std::vector<size_t> run() {
    done_.resize(waits_.size());
    for (size_t n = 0; n < nodes_.size(); ++n) visit(unit_[n]);
    return std::move(order_);
  }
  /// The loop of a node; the number of loops and more for a node that is in none.
  size_t unit(size_t node) const { return unit_[node]; }

 private:
  /// A node is part of a turn if it reads what differs between turns.
  void find_loops() {
    std::unordered_map<const Operation*, size_t> loop_of;  // of what a turn reads
    for (size_t r = 0; r < repeats_.size(); ++r) {
      for (const Repeat::Slice& s : repeats_[r].slices) loop_of[s.row.op()] = r;
      for (const Repeat::State& s : repeats_[r].states) loop_of[s.before.op()] = r;
    }
    // Nodes are in an order in which the stages of one turn can run.
    for (size_t n = 0; n < nodes_.size(); ++n) {
      unit_[n] = repeats_.size() + n;
      for (const Tensor& t : nodes_[n].inputs) {
        const auto at = loop_of.find(t.op());
        if (at == loop_of.end()) continue;
        if (unit_[n] < repeats_.size() && unit_[n] != at->second)
          fail_loop(
              repeats_[at->second],
              "a turn reads what differs between the turns of '" + repeats_[unit_[n]].name + "'",
              "only rows of all turns and last values are read behind a loop");
        unit_[n] = at->second;
      }
      if (unit_[n] >= repeats_.size()) continue;
      for (const Tensor& t : nodes_[n].outputs) loop_of[t.op()] = unit_[n];
    }
    for (size_t r = 0; r < repeats_.size(); ++r) {
      for (const Tensor& t : behind(repeats_[r])) behind_[t.op()] = r;
    }
  }
  static std::vector<Tensor> behind(const Repeat& r) {
    std::vector<Tensor> all;
    for (const Repeat::State& s : r.states) {
      if (s.last) all.push_back(s.last);
    }
    for (const Repeat::Rows& rows : r.rows) all.push_back(rows.all);
    return all;
  }
  void add_edges(const Tensor& read, size_t unit) {
    if (const auto at = behind_.find(read.op()); at != behind_.end()) {
      if (at->second == unit) fail_circle(unit, unit);
      waits_[unit].insert(at->second);
    }
    const auto at = writers_.find(read.op());
    if (at == writers_.end()) return;
    for (const size_t n : at->second) {
      if (unit_[n] != unit) waits_[unit].insert(unit_[n]);
    }
  }
  /// Adds the nodes of a unit behind those that it waits for. Depths are those of chains of units, so the
  /// stack is a list.
  void visit(size_t unit) {
    std::vector<std::pair<size_t, bool>> open{{unit, false}};
    while (!open.empty()) {
      const auto [u, entered] = open.back();
      open.pop_back();
      if (entered) {
        add_nodes(u);
        done_[u] = 2;
      } else if (done_[u] == 0) {
        done_[u] = 1;
        open.emplace_back(u, true);
        for (auto w = waits_[u].rbegin(); w != waits_[u].rend(); ++w) {
          if (done_[*w] == 1) fail_circle(u, *w);
          if (done_[*w] == 0) open.emplace_back(*w, false);
        }
      }
    }
  }
  [[noreturn]] void fail_circle(size_t a, size_t b) const {
    const size_t r = std::min(a, b);
    HEDDLE_ICHECK(r < repeats_.size(), "nodes wait for each other, and none of them is of a loop");
    fail_loop(repeats_[r], "what it reads depends on its own results",
              "read what other turns have made by a state");
  }
  void add_nodes(size_t unit) {
    if (unit >= repeats_.size()) {
      order_.push_back(unit - repeats_.size());
      return;
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (unit_[n] == unit) order_.push_back(n);
    }
  }

  const std::vector<Repeat>& repeats_;
  const std::vector<ExtractedNode>& nodes_;
  std::unordered_map<const Operation*, std::vector<size_t>> writers_;
  std::unordered_map<const Operation*, size_t> behind_;  ///< loops of what is read behind them
  std::vector<size_t> unit_;
  std::vector<std::set<size_t>> waits_;
  std::vector<char> done_;  ///< of each unit: 1 while what it waits for is added, then 2
  std::vector<size_t> order_;
};

}  // namespace

std::vector<NetworkLoop> order_loops(const std::vector<Repeat>& repeats,
                                     const std::vector<Tensor>& outputs,
                                     const std::vector<Tensor>& declared,
                                     std::vector<ExtractedNode>& nodes) {
  Units units(repeats, outputs, declared, nodes);
  const std::vector<size_t> order = units.run();
  std::vector<NetworkLoop> loops;
  std::vector<ExtractedNode> sorted;
  for (const size_t n : order) {
    const size_t r = units.unit(n);
    if (r < repeats.size()) {
      if (loops.empty() || loops.back().repeat != r)
        loops.push_back({r, sorted.size(), sorted.size(), repeats[r].turns});
      loops.back().end = sorted.size() + 1;
    }
    sorted.push_back(std::move(nodes[n]));
  }
  HEDDLE_ICHECK(loops.size() <= repeats.size(), "the nodes of a loop are consecutive");
  nodes = std::move(sorted);
  return loops;
}

std::vector<NetworkLoop> loops_of_steps(const std::vector<NetworkLoop>& loops,
                                        const std::vector<std::vector<int>>& nodes_of_steps) {
  std::vector<NetworkLoop> over;
  for (const NetworkLoop& loop : loops) {
    NetworkLoop& made = over.emplace_back(loop);
    made.begin = made.end = nodes_of_steps.size();
    for (size_t s = nodes_of_steps.size(); s-- > 0;) {
      const auto node = static_cast<size_t>(nodes_of_steps[s][0]);
      if (node < loop.begin || node >= loop.end) continue;
      made.begin = s;
      if (made.end == nodes_of_steps.size()) made.end = s + 1;
    }
  }
  return over;
}

}  // namespace heddle::network
