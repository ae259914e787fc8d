// Replacing rows of a tensor: what a step of a decoder does to its cache of keys and values.
//
//   const Dim total = dim("total", 1, 1024), n = dim("n", 1, 64);
//   Tensor cache = placeholder({1024, 8, 64}), rows = placeholder({n, 8, 64});
//   Tensor next = update(cache, rows, Expr(total) - n);  // rows total - n to total - 1
//
// Rows may go to places that are data, such as the end of each sequence of a batch:
//
//   Tensor next = update(cache, rows, places);           // row q of `rows` is row places(q) of cache
//
// The result is a tensor of its own. A Network whose StateUpdate names both writes the rows into the
// memory of the cache and copies nothing else.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "heddle/dsl/repeat.h"
#include "heddle/dsl/tensor.h"

namespace heddle {

/// An input that calls of a Network update: afterwards its memory holds `next`, an output of the same
/// shape and type. The weights and the states of an optimiser are such inputs, and a cache of keys
/// and values.
struct StateUpdate {
  Tensor state, next;
};

/// What calls of a Network do with memory beside computing outputs: the inputs that they update, as a
/// list, and the loops that they run.
struct Updates : std::vector<StateUpdate> {
  using std::vector<StateUpdate>::vector;
  Updates() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a list is updates without loops
  Updates(std::vector<StateUpdate> list, std::vector<Repeat> loops = {})
      : std::vector<StateUpdate>(std::move(list)), repeats(std::move(loops)) {}
  std::vector<Repeat> repeats = {};
};

/// `state` with `rows` (n, ...) in place of its rows `row` to row + n - 1, counted along its first
/// dimension. `row` is a sum of dimensions (dim.h) times constants. Rows that lie outside of the
/// state are left out of the result; a network that updates the state in place refuses the sizes of
/// such a call. Throws a User error for other shapes or types.
Tensor update(const Tensor& state, const Tensor& rows, Expr row, Where where = Where::current());

/// `state` with rows at places that are data. `places` (q...) are integers, and `rows` is (q..., r...)
/// where r... are the last dimensions of `state`. The dimensions of `state` before those are counted as
/// one: place p of a state (blocks, slots, r...) is its row (p / slots, p % slots). A place that is no
/// row of the state writes nothing, and of rows with one place the last is taken. Throws a User error
/// for other shapes or types.
Tensor update(const Tensor& state, const Tensor& rows, const Tensor& places,
              Where where = Where::current());

/// The parts of a tensor that `update` declares with a first row, or that is declared in the same way.
struct RowUpdate {
  Tensor state, rows;
  Expr row;
};
/// nullopt for all other tensors.
std::optional<RowUpdate> as_row_update(const Tensor& t);

}  // namespace heddle
