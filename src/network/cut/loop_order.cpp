// The order of nodes and loops.
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
  Units(const std::vector<Repeat>& repeats, const std::vector<Tensor>& declared,
        const CutNetwork& network)
      : repeats_(repeats), nodes_(network.nodes) {
    const std::vector<int> loop_of = loops_of_stages(repeats, network.dag);
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const Tensor& t : nodes_[n].outputs) writers_[t.op()].push_back(n);
      unit_.push_back(repeats.size() + n);
      for (const int s : nodes_[n].stages) {
        if (const int r = loop_of[static_cast<size_t>(s)]; r >= 0)
          unit_[n] = static_cast<size_t>(r);
      }
    }
    for (size_t r = 0; r < repeats.size(); ++r) {
      for (const Tensor& t : behind(repeats[r])) behind_[t.op()] = r;
    }
    waits_.resize(repeats.size() + nodes_.size());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const Tensor& t : nodes_[n].inputs) add_edges(t, unit_[n]);
    }
    for (size_t r = 0; r < repeats.size(); ++r) {
      for (const Tensor& t : repeats[r].computed()) {
        const int at = position_of(declared, t);
        HEDDLE_ICHECK(at >= 0, "what a loop reads is an output");
        add_edges(network.dag.outputs()[static_cast<size_t>(at)], r);
      }
    }
  }

  /// Lets nodes wait for others, too. False, and no change, where there is no order then.
  bool add(const std::vector<std::set<size_t>>& before) {
    const std::vector<std::set<size_t>> known = waits_;
    for (size_t n = 0; n < before.size(); ++n) {
      for (const size_t b : before[n]) {
        if (unit_[b] != unit_[n]) waits_[unit_[n]].insert(unit_[b]);
      }
    }
    if (!circle()) return true;
    waits_ = known;
    return false;
  }

  /// The nodes in order.
  std::vector<size_t> run() {
    if (const std::optional<size_t> unit = circle()) {
      HEDDLE_ICHECK(*unit < repeats_.size(), "nodes wait for each other, and none is of a loop");
      fail_loop(repeats_[*unit], "what it reads depends on its own results",
                "read what other turns have made by a state");
    }
    return std::move(order_);
  }
  /// The loop of a node; the number of loops and more for a node that is in none.
  size_t unit(size_t node) const { return unit_[node]; }

 private:
  static std::vector<Tensor> behind(const Repeat& r) {
    std::vector<Tensor> all;
    for (const Repeat::State& s : r.states) {
      if (s.last) all.push_back(s.last);
    }
    for (const Repeat::Rows& rows : r.rows) all.push_back(rows.all);
    return all;
  }
  void add_edges(const Tensor& read, size_t unit) {
    // A loop that waits for itself is a circle.
    if (const auto at = behind_.find(read.op()); at != behind_.end())
      waits_[unit].insert(at->second);
    const auto at = writers_.find(read.op());
    if (at == writers_.end()) return;
    for (const size_t n : at->second) {
      if (unit_[n] != unit) waits_[unit].insert(unit_[n]);
    }
  }
  /// Makes the order. Where there is none, the least unit of a circle. Depths are those of chains of units,
  /// so the stack is a list.
  std::optional<size_t> circle() {
    order_.clear();
    done_.assign(waits_.size(), 0);
    for (const size_t first : unit_) {
      std::vector<std::pair<size_t, bool>> open{{first, false}};
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
            if (done_[*w] == 1) return std::min(u, *w);
            if (done_[*w] == 0) open.emplace_back(*w, false);
          }
        }
      }
    }
    return std::nullopt;
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

LoopOrder order_loops(const Updates& updates, const std::vector<StateWrite>& writes,
                      const std::vector<Tensor>& declared, CutNetwork& network) {
  const std::vector<Repeat>& repeats = updates.repeats;
  Units units(repeats, declared, network);
  LoopOrder made;
  for (const StateWrite& write : writes) {
    if (!write.copied &&
        !units.add(runs_before({write}, network.dag, network.places, network.nodes)))
      made.copied.push_back(write.output);
  }
  if (!made.copied.empty()) return made;
  std::vector<ExtractedNode> sorted;
  for (const size_t n : units.run()) {
    const size_t r = units.unit(n);
    if (r < repeats.size()) {
      if (made.loops.empty() || made.loops.back().repeat != r)
        made.loops.push_back({r, sorted.size(), sorted.size(), repeats[r].turns});
      made.loops.back().end = sorted.size() + 1;
    }
    sorted.push_back(std::move(network.nodes[n]));
  }
  HEDDLE_ICHECK(made.loops.size() <= repeats.size(), "the nodes of a loop are consecutive");
  network.nodes = std::move(sorted);
  return made;
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
