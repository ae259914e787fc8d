#include "network/cut/loops.h"

#include <algorithm>
#include <set>

#include "dsl/computed_for_loops.h"
#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "network/cut/step_plan.h"
#include "network/cut/updates.h"

namespace heddle::network {

void fail_loop(const Repeat& r, const std::string& what, const std::string& help) {
  throw_user_error("loop '" + r.name + "': " + what, {}, help);
}

namespace {

void check(const Repeat& r) {
  const std::string help = "declare it with Recurrence (dsl/repeat.h)";
  std::vector<Tensor> all = r.computed();
  for (const Tensor& t : all) {
    if (!t || t.op()->is_placeholder()) fail_loop(r, "what it reads and writes is computed", help);
  }
  for (const Tensor& t : r.bound()) {
    if (!t || !t.op()->is_placeholder() || t.op()->is_constant())
      fail_loop(r, "what lies where its turns read it is an input", help);
    if (position_of(all, t) >= 0) fail_loop(r, "'" + t.name() + "' lies in two places", help);
    all.push_back(t);
  }
  const auto check_rows = [&](const Tensor& whole) {
    if (whole.rank() < 1 || !equal(whole.shape()[0], r.turns))
      fail_loop(r, "'" + whole.name() + "' does not have a row for each turn", help);
  };
  for (const Repeat::Slice& s : r.slices) check_rows(s.whole);
  for (const Repeat::Rows& rows : r.rows) check_rows(rows.all);
}

}  // namespace

void check_loops(const std::vector<Repeat>& repeats) {
  for (const Repeat& r : repeats) check(r);
}

std::vector<Repeat> loops_over(std::vector<Repeat> repeats, const std::vector<Tensor>& declared,
                               const std::vector<Tensor>& outputs) {
  const auto now = [&](Tensor& t) {
    const int at = position_of(declared, t);
    HEDDLE_ICHECK(at >= 0, "what a loop reads is an output");
    t = outputs[static_cast<size_t>(at)];
  };
  for (Repeat& r : repeats) {
    for (Repeat::Slice& s : r.slices) now(s.whole);
    for (Repeat::State& s : r.states) {
      now(s.first);
      now(s.next);
    }
    for (Repeat::Rows& rows : r.rows) now(rows.row);
  }
  return repeats;
}

bool is_bound(const std::vector<Repeat>& repeats, const Tensor& t) {
  return std::any_of(repeats.begin(), repeats.end(),
                     [&](const Repeat& r) { return position_of(r.bound(), t) >= 0; });
}

bool is_of_loop(const std::vector<Repeat>& repeats, const Tensor& t) {
  return position_of(computed_for(repeats), t) >= 0;
}

namespace {

/// The bytes of a row of `whole`. Throws a User error where they are no sum of sizes.
SizeSum row_bytes(const Tensor& whole, const std::vector<Var>& sizes) {
  Expr bytes = Expr(static_cast<int64_t>(whole.dtype().bytes()));
  for (size_t d = 1; d < whole.shape().size(); ++d) bytes = simplify(bytes * whole.shape()[d]);
  if (!as_affine(bytes))
    throw_user_error("a turn of a loop has a row of '" + whole.name() + "', whose " +
                         to_string(bytes) + " bytes are no sum of the sizes of a call",
                     {}, "leave one dimension beside that of the turns open, and fix the others");
  return size_sum(bytes, sizes);
}

}  // namespace

void check_rows(const std::vector<Repeat>& repeats, const std::vector<Var>& sizes,
                const Target& target) {
  const auto check = [&](const Repeat& r, const Tensor& whole) {
    const SizeSum bytes = row_bytes(whole, sizes);
    const auto is_aligned = [&](int64_t n) { return rows_are_aligned(n, target); };
    if (is_aligned(bytes.constant) && std::ranges::all_of(bytes.factors, is_aligned)) return;
    fail_loop(
        r,
        "on a GPU rows begin at multiples of 16 bytes, and those of '" + whole.name() + "' do not",
        "give all dimensions but that of the turns one size each");
  };
  for (const Repeat& r : repeats) {
    for (const Repeat::Slice& s : r.slices) check(r, s.whole);
    for (const Repeat::Rows& rows : r.rows) check(r, rows.all);
  }
}

LoopPlaces::LoopPlaces(const std::vector<Repeat>& repeats, const std::vector<NetworkLoop>& loops,
                       const std::vector<Var>& sizes)
    : loops_(loops), sizes_(sizes) {
  for (const Repeat& r : repeats) {
    for (const Repeat::Slice& s : r.slices)
      add(s.row, {s.whole, s.whole, {}, {}, row_bytes(s.whole, sizes), 0, s.reverse});
    for (const Repeat::Rows& rows : r.rows)
      add(rows.row, {rows.all, rows.all, {}, {}, row_bytes(rows.all, sizes), 0, rows.reverse});
    add_states(r);
  }
}

void LoopPlaces::add_states(const Repeat& repeat) {
  for (const Repeat::State& s : repeat.states) {
    const auto rows = std::find_if(repeat.rows.begin(), repeat.rows.end(),
                                   [&](const Repeat::Rows& r) { return r.row.same_as(s.next); });
    if (rows != repeat.rows.end()) {
      HEDDLE_ICHECK(!s.last, "a state that is a row of results has no place of its own");
      add(s.before,
          {rows->all, rows->all, s.first, {}, row_bytes(rows->all, sizes_), 1, rows->reverse});
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
