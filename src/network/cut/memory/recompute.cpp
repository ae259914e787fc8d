#include "network/cut/memory/recompute.h"

#include <algorithm>
#include <optional>

namespace heddle::network {
namespace {

// The results that are tried where most bytes live, the largest first.
constexpr size_t kMostTried = 64;
// The arena has gaps; the bytes that live at once are lowered this often until it fits.
constexpr int kMostArenas = 8;
// Shares of the bytes that live without second runs, to which they are lowered where the limit itself
// is no good aim.
constexpr int kAims = 8;

// A buffer that is not computed again.
constexpr size_t kNever = std::numeric_limits<size_t>::max();

/// A call in which some results are computed again.
struct Trial {
  std::vector<RepeatableStep> steps;
  std::vector<BufferLifetime> lifetimes;  ///< of the buffers, then of the results of second runs
  std::vector<int64_t> live;
  double seconds = 0;
  double excess = 0;  ///< the sum of what lives above the limit, over all steps
};

class Recomputer {
 public:
  Recomputer(const BufferGraph& graph, const std::vector<RepeatedNode>& nodes,
             const std::vector<char>& kept)
      : graph_(graph), nodes_(nodes), kept_(kept), writer_(graph.buffers(), kNever) {
    std::vector<char> alone(graph.buffers(), 1);
    readers_.resize(graph.buffers());
    for (size_t n = 0; n < graph.nodes(); ++n) {
      for (const int b : graph.writes(n)) {
        if (writer_[b] != kNever) alone[b] = 0;
        writer_[b] = n;
      }
      for (const int b : graph.reads(n)) {
        if (readers_[b].empty() || readers_[b].back() != n) readers_[b].push_back(n);
      }
    }
    for (size_t b = 0; b < alone.size(); ++b) {
      if (alone[b] == 0 || graph.is_read_at_end(static_cast<int>(b)) || !nodes_[writer_[b]].allowed)
        writer_[b] = kNever;
    }
    last_.assign(graph.buffers(), kNever);
  }

  /// Computes the result again for its last reader.
  void force(int b) {
    if (writer_[b] == kNever || readers_[b].empty()) return;
    last_[b] = readers_[b].size() < 2 ? writer_[b] : readers_[b][readers_[b].size() - 2];
    if (!run(0)) last_[b] = kNever;
  }

  /// Leaves results out until no more than `limit` bytes live, or nothing helps.
  Trial lower(int64_t limit) {
    Trial now = *run(limit);
    while (now.excess > 0) {
      std::optional<Trial> best = best_of(now, limit);
      if (!best) break;
      now = std::move(*best);
    }
    return now;
  }

 private:
  /// The call in which `last_` says after which node a result is left out. Nothing where a node would
  /// run behind what overwrites its arguments.
  std::optional<Trial> run(int64_t limit) const {
    Trial made;
    std::vector<char> again(graph_.nodes());
    for (size_t n = 0; n < graph_.nodes(); ++n) {
      if (!add_second_runs(n, n, again, made)) return std::nullopt;
      if (!runs_later(n)) made.steps.push_back({n, false, reads_again(n, n)});
    }
    made.lifetimes = lifetimes(made.steps);
    made.live = live_bytes(made.lifetimes, made.steps.size());
    for (const int64_t bytes : made.live)
      made.excess += static_cast<double>(std::max<int64_t>(0, bytes - limit));
    return made;
  }

  /// Whether nobody reads the results of a first run of the node.
  bool runs_later(size_t n) const {
    const std::vector<int>& writes = graph_.writes(n);
    return !writes.empty() && std::all_of(writes.begin(), writes.end(),
                                          [&](int b) { return last_[b] == n && writer_[b] == n; });
  }

  bool left_out(int b, size_t at) const { return last_[b] != kNever && at > last_[b]; }

  std::vector<char> reads_again(size_t node, size_t at) const {
    std::vector<char> list;
    for (const int b : graph_.reads(node)) list.push_back(left_out(b, at) ? 1 : 0);
    return list;
  }

  /// Adds the second runs that `node`, which runs before or as node `at`, waits for. The stack is a
  /// list, because chains are long.
  bool add_second_runs(size_t node, size_t at, std::vector<char>& again, Trial& made) const {
    std::vector<size_t> open{node};
    while (!open.empty()) {
      const size_t n = open.back();
      const size_t waiting = open.size();
      for (const int b : graph_.reads(n)) {
        if (left_out(b, at) && again[writer_[b]] == 0) open.push_back(writer_[b]);
      }
      if (open.size() > waiting) continue;
      open.pop_back();
      if (open.empty() || again[n] != 0) continue;
      if (at > nodes_[n].until) return false;
      again[n] = 1;
      made.steps.push_back({n, true, reads_again(n, at)});
      if (!runs_later(n)) made.seconds += nodes_[n].seconds;
    }
    return true;
  }

  std::vector<BufferLifetime> lifetimes(const std::vector<RepeatableStep>& steps) const {
    const size_t buffers = graph_.buffers();
    std::vector<BufferLifetime> all(2 * buffers);
    for (size_t b = 0; b < buffers; ++b) {
      if (graph_.is_read_at_end(static_cast<int>(b)))
        all[b].last = static_cast<int>(steps.size()) - 1;
    }
    for (size_t s = steps.size(); s-- > 0;) {
      const int step = static_cast<int>(s);
      const auto lives = [&](int b, bool again) {
        BufferLifetime& l = all[static_cast<size_t>(b) + (again ? buffers : 0)];
        l = {graph_.bytes(b), step, std::max(l.last, step)};
      };
      const std::vector<int>& reads = graph_.reads(steps[s].node);
      for (size_t r = 0; r < reads.size(); ++r) lives(reads[r], steps[s].reads_again[r] != 0);
      for (const int b : graph_.writes(steps[s].node)) lives(b, steps[s].again);
    }
    return all;
  }

  /// The best call in which one more result is left out.
  std::optional<Trial> best_of(const Trial& now, int64_t limit) {
    const auto peak =
        static_cast<int>(std::max_element(now.live.begin(), now.live.end()) - now.live.begin());
    std::optional<Trial> best;
    double most = 0;
    int chosen = -1;
    size_t chosen_last = kNever;
    for (const int b : candidates(now, peak)) {
      const std::optional<size_t> last = last_reader_before(now, b, peak);
      if (!last) continue;
      last_[b] = *last;
      std::optional<Trial> trial = run(limit);
      last_[b] = kNever;
      if (!trial || trial->excess >= now.excess) continue;
      const double more = std::max(trial->seconds - now.seconds, 1e-12);
      const double gain = (now.excess - trial->excess) / more;
      if (gain <= most) continue;
      most = gain;
      chosen = b;
      chosen_last = *last;
      best = std::move(trial);
    }
    if (chosen >= 0) last_[chosen] = chosen_last;
    return best;
  }

  /// The buffers that live through the step, and can leave.
  std::vector<int> candidates(const Trial& now, int peak) const {
    std::vector<int> list;
    for (size_t b = 0; b < graph_.buffers(); ++b) {
      const BufferLifetime& l = now.lifetimes[b];
      if (l.first < peak && l.last > peak && last_[b] == kNever && writer_[b] != kNever &&
          kept_[b] == 0)
        list.push_back(static_cast<int>(b));
    }
    std::stable_sort(list.begin(), list.end(),
                     [&](int a, int b) { return graph_.bytes(a) > graph_.bytes(b); });
    if (list.size() > kMostTried) list.resize(kMostTried);
    return list;
  }

  /// The last node that reads `b` before step `peak`, or writes it where none does. Nothing where the
  /// step itself reads it.
  std::optional<size_t> last_reader_before(const Trial& now, int b, int peak) const {
    const RepeatableStep& at = now.steps[static_cast<size_t>(peak)];
    const std::vector<int>& reads = graph_.reads(at.node);
    if (std::find(reads.begin(), reads.end(), b) != reads.end()) return std::nullopt;
    size_t last = writer_[b];
    for (int s = 0; s < peak; ++s) {
      const RepeatableStep& step = now.steps[static_cast<size_t>(s)];
      const std::vector<int>& list = graph_.reads(step.node);
      const bool reads_it = std::find(list.begin(), list.end(), b) != list.end();
      // A second run of a reader stands before the node that needs it.
      if (reads_it && step.again) return std::nullopt;
      if (reads_it) last = step.node;
    }
    return last;
  }

  const BufferGraph& graph_;
  const std::vector<RepeatedNode>& nodes_;
  const std::vector<char>& kept_;
  std::vector<size_t> writer_;  ///< of each buffer; kNever where that does not run again
  std::vector<std::vector<size_t>> readers_;
  std::vector<size_t> last_;  ///< the last node that reads the first result of each buffer
};

}  // namespace

namespace {

/// Leaves results out until no more than `live` bytes live, and then until the arena fits.
Recomputation attempt(Recomputer all, int64_t live, int64_t limit) {
  Recomputation found;
  for (int i = 0; i < kMostArenas && !found.fits; ++i) {
    Trial trial = all.lower(live);
    const int64_t bytes = plan_memory(trial.lifetimes).bytes;
    live -= std::max<int64_t>(kArenaAlignment, bytes - limit);
    if (i == 0 || bytes < found.bytes)
      found = {std::move(trial.steps), trial.seconds, bytes, bytes <= limit};
  }
  return found;
}

}  // namespace

Recomputation recompute(const BufferGraph& graph, const std::vector<RepeatedNode>& nodes,
                        int64_t limit, const std::vector<char>& kept,
                        const std::vector<char>& repeated) {
  Recomputer all(graph, nodes, kept);
  for (size_t b = 0; b < repeated.size(); ++b) {
    if (repeated[b] != 0) all.force(static_cast<int>(b));
  }
  Recomputation found = attempt(all, limit, limit);
  if (found.fits) return found;
  // Greedy decisions end in a valley. Other aims lead to others.
  const std::vector<int64_t> live = live_bytes(graph.lifetimes(), graph.nodes());
  const int64_t most = *std::max_element(live.begin(), live.end());
  found.bytes = std::numeric_limits<int64_t>::max();
  for (int part = kAims - 1; part >= 0; --part) {
    const int64_t aim = most / kAims * part;
    Recomputation other = attempt(all, aim, aim);
    other.fits = other.bytes <= limit;
    if (other.fits) return other;
    if (other.bytes < found.bytes) found = std::move(other);
  }
  return found;
}

}  // namespace heddle::network
