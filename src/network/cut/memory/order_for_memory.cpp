#include "network/cut/memory/order_for_memory.h"

#include <algorithm>
#include <limits>

namespace heddle::network {
namespace {

// Another order is taken if the most bytes that live at once fall to this share.
constexpr double kShare = 0.95;
// The nodes that could be the next, of which one is chosen, and the nodes that are looked at behind
// each of them.
constexpr int kMostReady = 32, kMostAhead = 4;

class ListScheduler {
 public:
  ListScheduler(const BufferGraph& graph, const std::vector<std::set<size_t>>& before)
      : graph_(graph), waits_(before.size()), then_(before.size()), readers_(graph.buffers()) {
    for (size_t n = 0; n < before.size(); ++n) {
      waits_[n] = before[n].size();
      for (const size_t b : before[n]) then_[b].push_back(n);
      for (const int b : once(graph.reads(n))) ++readers_[b];
    }
    live_.resize(graph.buffers());
  }

  std::vector<size_t> run() {
    std::set<size_t> ready;
    for (size_t n = 0; n < waits_.size(); ++n) {
      if (waits_[n] == 0) ready.insert(n);
    }
    std::vector<size_t> order;
    while (!ready.empty()) {
      const size_t best = next_of(ready);
      (void)run(best);
      ready.erase(best);
      order.push_back(best);
      for (const size_t t : then_[best]) {
        if (waits_[t] == 0) ready.insert(t);
      }
    }
    return order;
  }

 private:
  static std::vector<int> once(std::vector<int> list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

  /// The earliest of those after which the fewest bytes live.
  size_t next_of(const std::set<size_t>& ready) {
    size_t best = *ready.begin();
    if (ready.size() == 1) return best;
    int64_t least = std::numeric_limits<int64_t>::max();
    int looked_at = 0;
    for (const size_t n : ready) {
      if (looked_at++ == kMostReady) break;
      const int64_t bytes = bytes_after(n);
      if (bytes < least) {
        best = n;
        least = bytes;
      }
    }
    return best;
  }

  /// Runs a node. Returns the bytes that live longer than before.
  int64_t run(size_t n) {
    int64_t bytes = 0;
    for (const int b : graph_.writes(n)) {
      if (live_[b]++ == 0) bytes += graph_.bytes(b);
    }
    for (const int b : once(graph_.reads(n))) {
      if (--readers_[b] == 0) bytes -= graph_.bytes(b);
    }
    for (const size_t t : then_[n]) --waits_[t];
    return bytes;
  }

  void undo(size_t n) {
    for (const int b : graph_.writes(n)) --live_[b];
    for (const int b : once(graph_.reads(n))) ++readers_[b];
    for (const size_t t : then_[n]) ++waits_[t];
  }

  /// The least bytes, more than now, after `n` and some of the nodes that can run because of it.
  int64_t bytes_after(size_t n) {
    std::vector<size_t> ran{n};
    int64_t bytes = run(n), least = bytes;
    for (size_t i = 0; i < ran.size() && ran.size() <= kMostAhead; ++i) {
      for (const size_t t : then_[ran[i]]) {
        if (waits_[t] > 0 || ran.size() > kMostAhead) continue;
        const int64_t more = run(t);
        if (more > 0) {
          undo(t);
          continue;
        }
        bytes += more;
        least = std::min(least, bytes);
        ran.push_back(t);
      }
    }
    while (!ran.empty()) {
      undo(ran.back());
      ran.pop_back();
    }
    return least;
  }

  const BufferGraph& graph_;
  std::vector<size_t> waits_;              ///< for how many nodes
  std::vector<std::vector<size_t>> then_;  ///< the nodes that wait for each
  std::vector<int> readers_;               ///< of each buffer, that have not run
  std::vector<int> live_;                  ///< the writers of each buffer that ran
};

int64_t most_live(const BufferGraph& graph, const std::vector<size_t>& order) {
  const std::vector<int64_t> live = live_bytes(graph.lifetimes(order), order.size());
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace

std::vector<size_t> order_for_memory(const BufferGraph& graph,
                                     const std::vector<std::set<size_t>>& before) {
  const std::vector<size_t> given = graph.order();
  std::vector<size_t> found = ListScheduler(graph, before).run();
  const auto least = static_cast<double>(most_live(graph, found));
  return least < kShare * static_cast<double>(most_live(graph, given)) ? found : given;
}

}  // namespace heddle::network
