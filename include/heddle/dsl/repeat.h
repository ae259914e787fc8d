// Loops over the rows of tensors: what is computed once in each turn, for networks.
//
//   Recurrence loop("sums", x.shape()[0]);              // x is (T, N): T turns
//   Tensor row = loop.row(x), before = loop.state(zeros);
//   Tensor sum = compute({N}, [&](Axis i) { return before(i) + row(i); });
//   loop.next(before, sum);
//   Tensor y = ops::relu(loop.all(sum));          // of (T, N), the sums of all turns
//   Network net({y}, Target::host(), {}, {}, Updates({}, {loop.repeat()}));
//
// A loop is no operation. What its turns read, and what is read behind it, are placeholders, and a
// Repeat says in which memory they lie. So one network has the stages of a turn beside all others,
// plans and compiles them like these, and its calls run their nodes T times. T is a constant or a size
// of the call.
#pragma once

#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// A loop. `turns` is a constant, or a sum of dimensions (dim.h), and the first extent of every
/// `whole` and `all`.
struct Repeat {
  /// In turn t, `row` is row t of `whole`; from the last row to the first if `reverse`.
  struct Slice {
    Tensor row, whole;
    bool reverse = false;
  };
  /// `before` is `first` in the first turn, and what `next` was in the turn before in all others.
  /// `last` is what `next` was in the last one; it may be undefined.
  struct State {
    Tensor before, first, next, last = {};
  };
  /// Row t of `all` is what `row` is in turn t; from the last row to the first if `reverse`.
  struct Rows {
    Tensor row, all;
    bool reverse = false;
  };
  std::string name;
  Expr turns;
  std::vector<Slice> slices = {};
  std::vector<State> states = {};
  std::vector<Rows> rows = {};

  /// What a call computes for the loop: each `whole`, `first`, `next` and `row` once.
  std::vector<Tensor> computed() const;
  /// The placeholders that lie where these are: each Slice::row, `before`, `last` and `all`.
  std::vector<Tensor> bound() const;
};

/// Declares a loop, part by part. What is declared from the placeholders of a turn is part of the
/// turn. Nothing else reads it but through `all` and `last`. Throws User errors for other shapes or
/// types.
class Recurrence {
 public:
  Recurrence(std::string name, Expr turns, Where where = Where::current());

  /// The row of `whole` (T, ...) in each turn, of shape (...).
  Tensor row(const Tensor& whole, bool reverse = false);
  /// A state that is `first` in the first turn.
  Tensor state(const Tensor& first);
  /// The value in the next turn of `before`, a result of state().
  void next(const Tensor& before, const Tensor& next);
  /// The rows of all turns (T, ...). Rows of the last turn come first if `reverse`.
  Tensor all(const Tensor& row, bool reverse = false);
  /// The value of a state after the last turn. Call it behind next() and all().
  Tensor last(const Tensor& before);

  const std::string& name() const { return repeat_.name; }
  /// The loop. Throws a User error where a state has no next value.
  Repeat repeat() const;

 private:
  Repeat::State& state_of(const Tensor& before);
  /// `t`, or a copy where it is an input, or is stored elsewhere already.
  Tensor stored(const Tensor& t) const;

  Repeat repeat_;
  Where where_;
};

/// Those of `repeats` that `outputs` depend on, without rows and values that nothing reads.
std::vector<Repeat> needed_repeats(const std::vector<Tensor>& outputs, std::vector<Repeat> repeats);

}  // namespace heddle
