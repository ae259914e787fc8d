#include "heddle/dsl/repeat.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "dsl/computed_for_loops.h"
#include "dsl/validate.h"
#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"

namespace heddle {
namespace {

bool has(const std::vector<Tensor>& list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& o) { return o.same_as(t); });
}

bool same_form(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() &&
         std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

std::string form_of(const Tensor& t) { return to_string(t.dtype()) + " " + shape_text(t.shape()); }

// The bytes at whose multiples rows begin: kernels of GPUs read vectors of so many.
constexpr int64_t kRowAlignment = 16;

/// How rows of this shape lie in memory where they would not begin at such multiples. What is added is in
/// proportion to the extents but the last one, which may be sizes of a call.
struct PaddedRows {
  PaddedRows(const Shape& row, DataType dtype) : extents(row) {
    const int64_t unit = kRowAlignment / dtype.bytes();
    const int64_t* last = row.empty() ? nullptr : as_int(row.back());
    if (!row.empty() && last == nullptr) return;
    const int64_t own = last == nullptr ? 1 : *last, whole = (own + unit - 1) / unit * unit;
    if (own == whole) return;
    Expr outer = Expr(1);
    for (size_t d = 0; d + 1 < row.size(); ++d) outer = outer * row[d];
    elements = simplify(outer * own);
    padded = simplify(outer * whole);
  }
  /// The position in a row of the element with these indices, of which those of the row begin at `first`.
  Expr flat(const std::vector<Axis>& i, size_t first) const {
    Expr at = Expr(0);
    for (size_t d = 0; d < extents.size(); ++d) at = at * extents[d] + i[first + d];
    return simplify(at);
  }
  /// The indices of an element.
  std::vector<Expr> indices(Expr flat) const {
    std::vector<Expr> at(extents.size());
    for (size_t d = extents.size(); d-- > 0;) {
      at[d] = d == 0 ? flat : floormod(flat, extents[d]);
      flat = floordiv(flat, extents[d]);
    }
    return at;
  }
  const Shape& extents;
  /// Those of a row, and the elements that it takes in memory; undefined where these are as many.
  Expr elements, padded;
};

}  // namespace

std::vector<Tensor> Repeat::computed() const {
  std::vector<Tensor> all;
  const auto add = [&](const Tensor& t) {
    if (!has(all, t)) all.push_back(t);
  };
  for (const Slice& s : slices) add(s.whole);
  for (const State& s : states) add(s.first);
  for (const State& s : states) add(s.next);
  for (const Rows& r : rows) add(r.row);
  return all;
}

std::vector<Tensor> computed_for(const std::vector<Repeat>& repeats) {
  std::vector<Tensor> all;
  for (const Repeat& r : repeats) {
    for (const Tensor& t : r.computed()) {
      if (!has(all, t)) all.push_back(t);
    }
  }
  return all;
}

std::vector<Tensor> Repeat::bound() const {
  std::vector<Tensor> all;
  for (const Slice& s : slices) all.push_back(s.row);
  for (const State& s : states) all.push_back(s.before);
  for (const State& s : states) {
    if (s.last) all.push_back(s.last);
  }
  for (const Rows& r : rows) all.push_back(r.all);
  return all;
}

Recurrence::Recurrence(std::string name, Expr turns, Where where)
    : repeat_{std::move(name), std::move(turns)}, where_(where) {
  const int64_t* constant = as_int(repeat_.turns);
  if (constant && *constant < 1)
    throw_user_error("loop '" + repeat_.name + "' has " + std::to_string(*constant) + " turns",
                     where, "give it one turn at least");
}

Tensor Recurrence::stored(const Tensor& t) const {
  if (!t.op()->is_placeholder() && !has(repeat_.computed(), t)) return t;
  return compute(
      t.shape(), [&](const std::vector<Axis>& i) { return t(i); }, t.name() + ".copy", "copy",
      where_);
}

Tensor Recurrence::row(const Tensor& whole, bool reverse) {
  if (whole.rank() < 1 || !equal(whole.shape()[0], repeat_.turns))
    throw_user_error("loop '" + repeat_.name + "' has " + to_string(repeat_.turns) +
                         " turns, and takes rows of '" + whole.name() + "', which is " +
                         form_of(whole),
                     where_, "its first dimension counts the turns");
  const Tensor row = placeholder(Shape(whole.shape().begin() + 1, whole.shape().end()),
                                 whole.dtype(), whole.name() + ".row", where_);
  const PaddedRows rows(row.shape(), row.dtype());
  const Tensor lies = !rows.padded.defined()
                          ? stored(whole)
                          : compute(
                                {repeat_.turns, rows.padded},
                                [&](Axis t, Axis i) {
                                  std::vector<Expr> at = rows.indices(min(i, rows.elements - 1));
                                  at.insert(at.begin(), t);
                                  return whole.at(at);
                                },
                                whole.name() + ".rows", "copy", where_);
  repeat_.slices.push_back({row, lies, reverse});
  return row;
}

Tensor Recurrence::state(const Tensor& first) {
  const Tensor before = placeholder(first.shape(), first.dtype(), first.name() + ".before", where_);
  repeat_.states.push_back({before, stored(first), {}});
  return before;
}

Repeat::State& Recurrence::state_of(const Tensor& before) {
  const auto at = std::find_if(repeat_.states.begin(), repeat_.states.end(),
                               [&](const Repeat::State& s) { return s.before.same_as(before); });
  if (at == repeat_.states.end())
    throw_user_error("'" + before.name() + "' is no state of loop '" + repeat_.name + "'", where_,
                     "pass what state() returned");
  return *at;
}

void Recurrence::next(const Tensor& before, const Tensor& next) {
  Repeat::State& state = state_of(before);
  if (!same_form(before, next))
    throw_user_error("a state of loop '" + repeat_.name + "' is " + form_of(before) +
                         ", and in the next turn '" + next.name() + "' of " + form_of(next),
                     where_, "give it one type and one shape");
  state.next = {};
  state.next = stored(next);
}

Tensor Recurrence::all(const Tensor& row, bool reverse) {
  // A state's next value is written once, to its row. One with a last value has a place of its own.
  const bool is_next =
      std::any_of(repeat_.states.begin(), repeat_.states.end(),
                  [&](const Repeat::State& s) { return s.next && s.next.same_as(row) && !s.last; });
  const bool is_row = std::any_of(repeat_.rows.begin(), repeat_.rows.end(),
                                  [&](const Repeat::Rows& r) { return r.row.same_as(row); });
  Shape shape{repeat_.turns};
  shape.insert(shape.end(), row.shape().begin(), row.shape().end());
  const PaddedRows rows(row.shape(), row.dtype());
  const Tensor all = placeholder(!rows.padded.defined() ? shape : Shape{repeat_.turns, rows.padded},
                                 row.dtype(), row.name() + ".all", where_);
  repeat_.rows.push_back({is_next && !is_row ? row : stored(row), all, reverse});
  if (!rows.padded.defined()) return all;
  return compute(
      shape, [&](const std::vector<Axis>& i) { return all(i[0], rows.flat(i, 1)); },
      row.name() + ".rows", "copy", where_);
}

Tensor Recurrence::last(const Tensor& before) {
  Repeat::State& state = state_of(before);
  if (!state.next)
    throw_user_error("a state of loop '" + repeat_.name + "' has no next value yet", where_,
                     "call next() before");
  for (const Repeat::Rows& r : repeat_.rows) {
    if (!r.row.same_as(state.next)) continue;
    return compute(
        before.shape(),
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at{r.reverse ? Expr(0) : simplify(repeat_.turns - 1)};
          const PaddedRows rows(before.shape(), before.dtype());
          if (!rows.padded.defined()) {
            at.insert(at.end(), i.begin(), i.end());
          } else {
            at.push_back(rows.flat(i, 0));
          }
          return r.all.at(at);
        },
        before.name() + ".last", "slice", where_);
  }
  if (!state.last)
    state.last = placeholder(before.shape(), before.dtype(), before.name() + ".last", where_);
  return state.last;
}

Repeat Recurrence::repeat() const {
  for (const Repeat::State& s : repeat_.states) {
    if (!s.next)
      throw_user_error("state '" + s.first.name() + "' of loop '" + repeat_.name +
                           "' has no value for the next turn",
                       where_, "call next() for each state");
  }
  return repeat_;
}

namespace {

/// The operations that tensors depend on, through loops, too.
class Reached {
 public:
  bool has(const Tensor& t) const { return seen_.count(t.op()) > 0; }
  void add(const Tensor& from) {
    std::vector<Tensor> open{from};
    while (!open.empty()) {
      const Tensor t = open.back();
      open.pop_back();
      if (!seen_.insert(t.op()).second) continue;
      for (const Tensor& input : t.op()->inputs()) open.push_back(input);
    }
  }
  size_t size() const { return seen_.size(); }

 private:
  std::unordered_set<const Operation*> seen_;
};

}  // namespace

std::vector<Repeat> needed_repeats(const std::vector<Tensor>& outputs,
                                   std::vector<Repeat> repeats) {
  Reached reached;
  for (const Tensor& t : outputs) reached.add(t);
  // What a loop reads is reached from what is read behind it.
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const Repeat& r : repeats) {
      for (const Repeat::Rows& rows : r.rows) {
        if (reached.has(rows.all)) reached.add(rows.row);
      }
      for (const Repeat::State& s : r.states) {
        if (!(s.last && reached.has(s.last)) && !reached.has(s.before)) continue;
        reached.add(s.first);
        reached.add(s.next);
      }
      for (const Repeat::Slice& s : r.slices) {
        if (reached.has(s.row)) reached.add(s.whole);
      }
    }
  }
  std::vector<Repeat> needed;
  for (Repeat& r : repeats) {
    std::erase_if(r.rows, [&](const Repeat::Rows& rows) { return !reached.has(rows.all); });
    for (Repeat::State& s : r.states) {
      if (s.last && !reached.has(s.last)) s.last = {};
    }
    std::erase_if(r.states,
                  [&](const Repeat::State& s) { return !s.last && !reached.has(s.before); });
    std::erase_if(r.slices, [&](const Repeat::Slice& s) { return !reached.has(s.row); });
    if (!r.rows.empty() || !r.states.empty()) needed.push_back(std::move(r));
  }
  return needed;
}

}  // namespace heddle
