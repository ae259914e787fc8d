#include "network/cut/loops.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "network/cut/step_plan.h"
#include "network/cut/updates.h"

namespace heddle::network {
namespace {

[[noreturn]] void fail(const Repeat& r, const std::string& what, const std::string& help) {
  throw_user_error("loop '" + r.name + "': " + what, {}, help);
}

void check(const Repeat& r) {
  const std::string help = "declare it with Recurrence (dsl/repeat.h)";
  std::vector<Tensor> all = r.computed();
  for (const Tensor& t : all) {
    if (!t || t.op()->is_placeholder()) fail(r, "what it reads and writes is computed", help);
  }
  for (const Tensor& t : r.bound()) {
    if (!t || !t.op()->is_placeholder() || t.op()->is_constant())
      fail(r, "what lies where its turns read it is an input", help);
    if (position_of(all, t) >= 0) fail(r, "'" + t.name() + "' lies in two places", help);
    all.push_back(t);
  }
  const auto check_rows = [&](const Tensor& whole) {
    if (whole.rank() < 1 || !equal(whole.shape()[0], r.turns))
      fail(r, "'" + whole.name() + "' does not have a row for each turn", help);
  };
  for (const Repeat::Slice& s : r.slices) check_rows(s.whole);
  for (const Repeat::Rows& rows : r.rows) check_rows(rows.all);
}

}  // namespace

void check_loops(const Updates& updates) {
  for (const Repeat& r : updates.repeats) check(r);
  if (updates.empty() || updates.repeats.empty()) return;
  throw_user_error("a network with the loop '" + updates.repeats[0].name + "' updates '" +
                       updates[0].state.name() + "', which is not supported",
                   {}, "return the new value as an output, or unroll the loop");
}

bool is_bound(const std::vector<Repeat>& repeats, const Tensor& t) {
  return std::any_of(repeats.begin(), repeats.end(),
                     [&](const Repeat& r) { return position_of(r.bound(), t) >= 0; });
}

bool is_of_loop(const std::vector<Repeat>& repeats, const Tensor& t) {
  return std::any_of(repeats.begin(), repeats.end(),
                     [&](const Repeat& r) { return position_of(r.computed(), t) >= 0; });
}

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
          fail(repeats_[at->second],
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
    if (const auto at = behind_.find(read.op()); at != behind_.end() && at->second != unit)
      waits_[unit].insert(at->second);
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
    fail(repeats_[r], "what it reads depends on its own results",
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

LoopPlaces::LoopPlaces(const std::vector<Repeat>& repeats, const std::vector<NetworkLoop>& loops,
                       const std::vector<Var>& sizes)
    : loops_(loops), sizes_(sizes) {
  for (const Repeat& r : repeats) {
    for (const Repeat::Slice& s : r.slices)
      add(s.row, {s.whole, s.whole, {}, {}, row_bytes(s.whole), 0, s.reverse});
    for (const Repeat::Rows& rows : r.rows)
      add(rows.row, {rows.all, rows.all, {}, {}, row_bytes(rows.all), 0, rows.reverse});
    add_states(r);
  }
}

void LoopPlaces::add_states(const Repeat& repeat) {
  for (const Repeat::State& s : repeat.states) {
    const auto rows = std::find_if(repeat.rows.begin(), repeat.rows.end(),
                                   [&](const Repeat::Rows& r) { return r.row.same_as(s.next); });
    if (rows != repeat.rows.end()) {
      HEDDLE_ICHECK(!s.last, "a state that is a row of results has no place of its own");
      add(s.before, {rows->all, rows->all, s.first, {}, row_bytes(rows->all), 1, rows->reverse});
      continue;
    }
    const auto buffer = [&] {
      return placeholder(s.before.shape(), s.before.dtype(), s.before.name());
    };
    const Tensor even = buffer(), odd = buffer();
    add(s.before, {odd, even, s.first, {}});
    add(s.next, {even, odd, {}, s.last});
  }
}

SizeSum LoopPlaces::row_bytes(const Tensor& whole) const {
  Expr bytes = Expr(static_cast<int64_t>(whole.dtype().bytes()));
  for (size_t d = 1; d < whole.shape().size(); ++d) bytes = simplify(bytes * whole.shape()[d]);
  if (!as_affine(bytes))
    throw_user_error("a turn of a loop has a row of '" + whole.name() + "', whose " +
                         to_string(bytes) + " bytes are no sum of the sizes of a call",
                     {}, "leave one dimension beside that of the turns open, and fix the others");
  return size_sum(bytes, sizes_);
}

std::vector<Tensor> LoopPlaces::memory_of(const std::vector<Tensor>& list) const {
  std::vector<Tensor> all;
  for (const Tensor& t : list) {
    const auto at = bound_.find({t.op(), t.index()});
    if (at == bound_.end()) {
      all.push_back(t);
      continue;
    }
    const Bound& b = at->second;
    for (const Tensor& part : {b.even, b.odd, b.first, b.last}) {
      if (part) all.push_back(part);
    }
  }
  return all;
}

void LoopPlaces::extend(const BufferGraph& buffers, std::vector<BufferLifetime>& lifetimes) const {
  std::set<int> of_turns;
  for (const auto& [key, b] : bound_) {
    for (const Tensor& t : {b.even, b.odd, b.first, b.last}) {
      if (t) of_turns.insert(buffers.find(t));
    }
  }
  for (const NetworkLoop& loop : loops_) {
    const int begin = static_cast<int>(loop.begin), last = static_cast<int>(loop.end) - 1;
    for (size_t s = loop.begin; s < loop.end; ++s) {
      for (const std::vector<int>* list : {&buffers.reads(s), &buffers.writes(s)}) {
        for (const int b : *list) {
          BufferLifetime& life = lifetimes[static_cast<size_t>(b)];
          if (!of_turns.contains(b) && life.first >= begin) continue;
          life.first = std::min(life.first, begin);
          life.last = std::max(life.last, last);
        }
      }
    }
  }
}

std::optional<ProgramPlace> LoopPlaces::find(const Tensor& t,
                                             FunctionRef<ProgramPlace(const Tensor&)> place_of,
                                             std::vector<TurnPlace>& turns) {
  const auto at = bound_.find({t.op(), t.index()});
  if (at == bound_.end()) return std::nullopt;
  Bound& b = at->second;
  if (b.number < 0) {
    const auto place = [&](const Tensor& part) { return part ? place_of(part) : ProgramPlace{}; };
    b.number = static_cast<int>(turns.size());
    turns.push_back({place(b.even), place(b.odd), place(b.first), place(b.last), b.row_bytes,
                     b.back, b.reverse});
  }
  return ProgramPlace{ProgramPlace::Turn, b.number};
}

std::vector<ProgramLoop> LoopPlaces::loops() const {
  std::vector<ProgramLoop> all;
  for (const NetworkLoop& loop : loops_)
    all.push_back({loop.begin, loop.end, size_sum(loop.turns, sizes_)});
  return all;
}

}  // namespace heddle::network
