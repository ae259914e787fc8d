#include "heddle/dsl/update.h"

#include <algorithm>

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

/// Whether `e` is constant or varies with the sizes of a call alone.
bool is_of_sizes(const Expr& e) {
  const std::optional<Affine> sum = as_affine(e);
  return sum && std::all_of(sum->terms.begin(), sum->terms.end(),
                            [](const Affine::Term& t) { return t.var->size.has_value(); });
}

void check(const Tensor& state, const Tensor& rows, const Expr& row, const Where& where) {
  const auto fail = [&](const std::string& what, const std::string& help) {
    throw_user_error("update of '" + state.name() + "': " + what, where, help);
  };
  if (rows.dtype() != state.dtype())
    fail("the rows are " + to_string(rows.dtype()) + ", and the state is " +
             to_string(state.dtype()),
         "convert the rows");
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
