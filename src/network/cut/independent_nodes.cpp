#include "network/cut/independent_nodes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace heddle::network {
namespace {

constexpr size_t kMostParts = 8;

// How far before its place a node runs that waits for nothing: its result takes memory until it is read.
constexpr size_t kFar = 16;

// The nodes on which each node depends, by the memory that it reads.
std::vector<std::vector<int>> dependencies(const std::vector<NetworkNode>& nodes, size_t begin,
                                           size_t end, const std::vector<TensorPlace>& places,
                                           const std::vector<StatePlace>& states) {
  const auto memory = [&](const Tensor& t) {
    for (const StatePlace& p : states) {
      if (p.tensor.same_as(t)) return p.state.buffer().get();
    }
    const auto it = std::find_if(places.begin(), places.end(),
                                 [&](const TensorPlace& p) { return p.tensor.same_as(t); });
    return (it == places.end() ? t : it->whole).buffer().get();
  };
  std::map<const BufferNode*, std::vector<int>> writers, readers;
  std::vector<std::vector<int>> out(nodes.size());
  for (size_t n = begin; n < end; ++n) {
    for (const Tensor& t : nodes[n].inputs) {
      const auto it = writers.find(memory(t));
      if (it != writers.end()) out[n].insert(out[n].end(), it->second.begin(), it->second.end());
    }
    for (const Tensor& t : nodes[n].outputs) {
      const std::vector<int>& read_before = readers[memory(t)];
      out[n].insert(out[n].end(), read_before.begin(), read_before.end());
      writers[memory(t)].push_back(static_cast<int>(n));
    }
    for (const Tensor& t : nodes[n].inputs) readers[memory(t)].push_back(static_cast<int>(n));
  }
  return out;
}

// Takes nodes that are ready until all are steps.
class Scheduler {
 public:
  Scheduler(const std::vector<NetworkNode>& nodes, size_t begin, size_t end,
            std::vector<std::vector<int>> needs, MovedNodes& memory,
            FunctionRef<bool(const std::vector<int>& tasks)> fit)
      : nodes_(nodes),
        begin_(begin),
        end_(end),
        memory_(memory),
        fit_(fit),
        needs_(std::move(needs)),
        after_(nodes.size()),
        done_(nodes.size()) {
    for (size_t n = end; n-- > begin;) {
      for (const int p : needs_[n]) {
        int& longest = after_[static_cast<size_t>(p)];
        longest = std::max(longest, after_[n] + 1);
      }
    }
  }

  std::vector<std::vector<int>> run() {
    std::vector<std::vector<int>> steps;
    for (size_t first = begin_; first < end_;) {
      // Nodes are in an order in which they can run, so the first that is left is ready.
      if (done_[first]) {
        ++first;
        continue;
      }
      steps.push_back(step_of(first));
      for (const int n : steps.back()) done_[static_cast<size_t>(n)] = 1;
    }
    return steps;
  }

 private:
  bool ready(size_t n) const {
    return !done_[n] && std::all_of(needs_[n].begin(), needs_[n].end(),
                                    [&](int p) { return done_[static_cast<size_t>(p)] != 0; });
  }

  /// The nodes that run with `first`; or a node before it, because more nodes wait for that one, and
  /// `first` leaves room for what comes behind it.
  std::vector<int> step_of(size_t first) {
    std::vector<int> step{static_cast<int>(first)}, tasks{nodes_[first].task};
    size_t longest = first;
    std::vector<size_t> moved;
    for (size_t n = first + 1; n < end_; ++n) {
      if (step.size() == kMostParts) break;
      if (!ready(n) || (needs_[n].empty() && n - first > kFar)) continue;
      tasks.push_back(nodes_[n].task);
      if (fit_(tasks) && memory_.may_move(n, first)) {
        memory_.run(n, first);
        step.push_back(static_cast<int>(n));
        continue;
      }
      tasks.pop_back();
      if (after_[n] > after_[longest]) longest = n;
    }
    if (step.size() == 1 && longest != first && fit_({tasks[0], tasks[0]}) &&
        memory_.may_move(longest, first)) {
      memory_.run(longest, first);
      return {static_cast<int>(longest)};
    }
    memory_.run(first, first);
    return step;
  }

  const std::vector<NetworkNode>& nodes_;
  const size_t begin_, end_;
  MovedNodes& memory_;
  FunctionRef<bool(const std::vector<int>&)> fit_;
  const std::vector<std::vector<int>> needs_;
  std::vector<int> after_;  ///< of each node, how many run one after the other behind it
  std::vector<char> done_;
};

}  // namespace

std::vector<std::vector<int>> independent_nodes(
    const std::vector<NetworkNode>& nodes, size_t begin, size_t end,
    const std::vector<TensorPlace>& places, const std::vector<StatePlace>& states,
    MovedNodes& memory, FunctionRef<bool(const std::vector<int>& tasks)> fit) {
  return Scheduler(nodes, begin, end, dependencies(nodes, begin, end, places, states), memory, fit)
      .run();
}

}  // namespace heddle::network
