#include "heddle/dsl/update.h"

#include <algorithm>
#include <functional>

#include "dsl/validate.h"
#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

Expr is_inside(const Axis& i, const Expr& row, const Expr& rows) {
  return Expr(i) >= row && Expr(i) < row + rows;
}

bool same_extents(const Shape& a, const Shape& b, size_t from) {
  return std::equal(a.begin() + static_cast<long>(from), a.end(),
                    b.begin() + static_cast<long>(from), b.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

bool is_empty(const Tensor& t) {
  return std::any_of(t.shape().begin(), t.shape().end(),
                     [](const Expr& e) { return is_const(e, 0); });
}

/// Whether `e` is constant or varies with the sizes of a call alone.
bool is_of_sizes(const Expr& e) {
  const std::optional<Affine> sum = as_affine(e);
  return sum && std::all_of(sum->terms.begin(), sum->terms.end(),
                            [](const Affine::Term& t) { return t.var->size.has_value(); });
}

/// Throws a User error about an update.
using Fails = std::function<void(const std::string& what, const std::string& help)>;

/// What throws for this update, of rows that have the type of the state.
Fails checked_types(const Tensor& state, const Tensor& rows, const Where& where) {
  const Fails fail = [state, where](const std::string& what, const std::string& help) {
    throw_user_error("update of '" + state.name() + "': " + what, where, help);
  };
  if (rows.dtype() != state.dtype())
    fail("the rows are " + to_string(rows.dtype()) + ", and the state is " +
             to_string(state.dtype()),
         "convert the rows");
  return fail;
}

void check(const Tensor& state, const Tensor& rows, const Expr& row, const Where& where) {
  const Fails fail = checked_types(state, rows, where);
  if (state.rank() < 1 || rows.rank() != state.rank() ||
      !same_extents(rows.shape(), state.shape(), 1))
    fail("the rows are " + shape_text(rows.shape()) + ", and the state is " +
             shape_text(state.shape()),
         "all dimensions but the first are equal");
  if (!row.defined() || row.dtype() != i64 || !is_of_sizes(row))
    fail("the first row is '" + (row.defined() ? to_string(row) : std::string()) + "'",
         "give a constant, or a sum of dimensions times constants");
  const int64_t *first = as_int(row), *n = as_int(rows.shape()[0]), *all = as_int(state.shape()[0]);
  if (first && n && all && (*first < 0 || *first + *n > *all))
    fail("rows " + std::to_string(*first) + " to " + std::to_string(*first + *n - 1) +
             " lie outside of its " + std::to_string(*all),
         "give the state more rows, or write fewer");
}

/// Throws where `rows` are no rows of `state` at `places`. Returns the number of the dimensions of
/// `state` that a place counts.
size_t check_places(const Tensor& state, const Tensor& rows, const Tensor& places,
                    const Where& where) {
  const Fails fail = checked_types(state, rows, where);
  if (!places.dtype().is_integral() || places.dtype().is_bool())
    fail("the places are " + to_string(places.dtype()), "give integers");
  const auto of_row = static_cast<size_t>(std::max(rows.rank() - places.rank(), 0));
  const size_t rank = state.shape().size();
  bool fits = places.rank() > 0 && rows.rank() >= places.rank() && of_row < rank;
  for (size_t d = 0; fits && d < rows.shape().size(); ++d) {
    const auto named = static_cast<size_t>(places.rank());
    fits = equal(rows.shape()[d],
                 d < named ? places.shape()[d] : state.shape()[rank - of_row + d - named]);
  }
  for (size_t d = 1; fits && d < rank - of_row; ++d) fits = as_int(state.shape()[d]) != nullptr;
  if (!fits)
    fail("the rows are " + shape_text(rows.shape()) + ", the places " + shape_text(places.shape()) +
             ", and the state is " + shape_text(state.shape()),
         "rows have the dimensions of the places, then the last ones of the state");
  return rank - of_row;
}

}  // namespace

Tensor update(const Tensor& state, const Tensor& rows, Expr row, Where where) {
  row = simplify(row);
  check(state, rows, row, where);
  return compute(
      state.shape(),
      [&](const std::vector<Axis>& at) {
        std::vector<Expr> of_rows(at.begin(), at.end());
        of_rows[0] = of_rows[0] - row;
        return select(is_inside(at[0], row, rows.shape()[0]), rows.at(of_rows), state(at));
      },
      state.name() + ".next", "update", where);
}

Tensor update(const Tensor& state, const Tensor& rows, const Tensor& places, Where where) {
  const size_t counted = check_places(state, rows, places, where);
  if (is_empty(rows) || is_empty(state))
    return compute(
        state.shape(), [&](const std::vector<Axis>& at) { return state(at); },
        state.name() + ".next", "update", where);
  std::vector<Axis> q;
  std::vector<int64_t> extents;
  for (const Expr& e : places.shape()) {
    q.push_back(reduce_axis(e, "q", where));
    extents.push_back(largest_extent(e));
  }
  // Which row names a place, counted in an order in which the last is the largest.
  const Tensor last = compute(
      Shape(state.shape().begin(), state.shape().begin() + static_cast<long>(counted)),
      [&](const std::vector<Axis>& at) {
        const Expr place = cast(i64, places.at({q.begin(), q.end()}));
        Expr here, number = Expr(0);
        int64_t stride = 1;
        for (size_t d = counted; d-- > 0;) {
          if (d > 0 && is_const(state.shape()[d], 1)) continue;
          Expr digit = floordiv(place, Expr(stride));
          if (d > 0) {
            digit = floormod(digit, state.shape()[d]);
            stride *= *as_int(state.shape()[d]);
          }
          const Expr same = digit == Expr(at[d]);
          here = here.defined() ? Expr(same && here) : same;
        }
        for (size_t k = 0; k < q.size(); ++k) number = number * Expr(extents[k]) + Expr(q[k]);
        return heddle::max(select(here, number, lowest_value(i64)), q);
      },
      state.name() + ".last", "update", where);
  return compute(
      state.shape(),
      [&](const std::vector<Axis>& at) {
        const auto row = at.begin() + static_cast<long>(counted);
        const Expr found = last.at({at.begin(), row});
        std::vector<Expr> from(q.size());
        Expr number = max(found, Expr(0));
        for (size_t k = q.size(); k-- > 0;) {
          // A symbolic dimension may be shorter than what the numbers leave room for.
          from[k] =
              min(k == 0 ? number : floormod(number, Expr(extents[k])), places.shape()[k] - 1);
          number = floordiv(number, Expr(extents[k]));
        }
        from.insert(from.end(), row, at.end());
        return select(found >= 0, rows.at(from), state(at));
      },
      state.name() + ".next", "update", where);
}

std::optional<RowUpdate> as_row_update(const Tensor& t) {
  const Operation& op = *t.op();
  if (op.is_placeholder() || op.is_reduction() || op.axes().empty() || op.num_outputs() != 1)
    return std::nullopt;
  const Select* choice = op.bodies()[0].as<Select>();
  const Load* rows = choice ? choice->on_true.as<Load>() : nullptr;
  const Load* state = choice ? choice->on_false.as<Load>() : nullptr;
  if (!rows || !state || rows->indices.size() != op.axes().size() ||
      state->indices.size() != op.axes().size())
    return std::nullopt;
  for (size_t d = 0; d < op.axes().size(); ++d) {
    const Expr axis = op.axes()[d];
    if (!equal(state->indices[d], axis) || (d > 0 && !equal(rows->indices[d], axis)))
      return std::nullopt;
  }
  const Expr row = simplify(Expr(op.axes()[0]) - rows->indices[0]);
  const RowUpdate found{tensor_of(state->buffer), tensor_of(rows->buffer), row};
  const bool alike = is_of_sizes(row) && same_extents(found.state.shape(), t.shape(), 0) &&
                     same_extents(found.rows.shape(), t.shape(), 1) &&
                     equal(simplify(choice->condition),
                           simplify(is_inside(op.axes()[0], row, found.rows.shape()[0])));
  return alike ? std::optional(found) : std::nullopt;
}

}  // namespace heddle
