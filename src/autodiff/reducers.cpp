#include "autodiff/reducers.h"

#include <limits>
#include <utility>

#include "ir/sizes.h"

namespace heddle::autodiff {
namespace {

std::vector<Expr> exprs(const std::vector<Axis>& axes) { return {axes.begin(), axes.end()}; }

Shape shape_of(const Operation& op) { return op.output(0).shape(); }

/// A reduction over the elements of `op`: `reduce` is given the element and the axes, all of them
/// those of the new stage.
template <class Reduction>
Tensor reduce_again(const Operation& op, const char* what, const Expr& element, Reduction reduce) {
  return compute(
      shape_of(op),
      [&](const std::vector<Axis>& i) {
        std::vector<VarBinding> by;
        for (size_t d = 0; d < i.size(); ++d) by.push_back({op.axes()[d].var(), Expr(i[d])});
        std::vector<Axis> over;
        for (const Axis& a : op.reduce_axes()) {
          over.push_back(reduce_axis(a->extent, a.name(), op.where()));
          by.push_back({a.var(), Expr(over.back())});
        }
        return reduce(substitute(element, by), over);
      },
      op.name() + "." + what, "gradient", op.where());
}

/// The place of the current element in the order of the reduce axes, and how many there are, in the
/// shortest type for them: places are kept in memory.
struct Places {
  Expr place = 0, count = 1;

  explicit Places(const std::vector<Axis>& axes) {
    for (const Axis& a : axes) {
      place = place * a->extent + a;
      count = count * a->extent;
    }
    const int64_t most = largest_extent(count);
    const DataType t = most <= std::numeric_limits<int32_t>::max() ? i32 : i64;
    place = cast(t, place);
    count = cast(t, count);
  }
};

/// Whether this is the first element with the value of the result; where that is NaN, the first NaN.
Expr is_winner(const Operation& op, const Reduce& r) {
  const Expr source = r.sources[0], result = op.output(0).at(exprs(op.axes()));
  Expr hit = source == result;
  if (source.dtype().is_float()) {
    // max and min are NaN where any element is
    const bool spreads = r.combiner->kind == ReduceKind::Max || r.combiner->kind == ReduceKind::Min;
    const Expr nan = isnan(source);
    hit = logical_or(hit, spreads ? nan : logical_and(nan, isnan(result)));
  }
  const Places places(op.reduce_axes());
  const Tensor winner = reduce_again(
      op, "winner", select(hit, places.place, places.count),
      [](const Expr& e, const std::vector<Axis>& over) { return reduce_min(e, over); });
  return winner.at(exprs(op.axes())) == places.place;
}

/// What an element of a product receives: the product of the others. Where one element is 0, only it
/// receives anything.
Expr head_of_product(const Operation& op, const Reduce& r, const Expr& head) {
  const Expr source = r.sources[0];
  const DataType t = source.dtype();
  const Expr zero = make_const(t, 0), one = make_const(t, 1);
  const Tensor zeros = reduce_again(
      op, "zeros", select(source == zero, one, zero),
      [&](const Expr& e, const std::vector<Axis>& over) { return sum_in(t, e, over); });
  const Tensor rest = reduce_again(
      op, "rest", select(source == zero, one, source),
      [&](const Expr& e, const std::vector<Axis>& over) { return prod_in(t, e, over); });
  const std::vector<Expr> at = exprs(op.axes());
  const Expr given = product_of(head, rest.at(at)), count = zeros.at(at);
  return select(source == zero, select(count == one, given, zero),
                select(count == zero, given / source, zero));
}

/// Whether the combiner gives one of its two operands, whatever they are.
bool chooses(const Combiner& c, const Expr& e) {
  if (const Select* s = e.as<Select>()) return chooses(c, s->on_true) && chooses(c, s->on_false);
  if (const Binary* b = e.as<Binary>(); b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max))
    return chooses(c, b->a) && chooses(c, b->b);
  return e.get() == c.lhs[0].get() || e.get() == c.rhs[0].get();
}

[[noreturn]] void refuse(const Operation& op, const Combiner& c) {
  const bool tuple = c.size() > 1;
  throw_user_error(
      "'" + op.name() + "' has no gradient: the reducer '" + c.name + "' " +
          (tuple ? "is over tuples" : "has no derivative"),
      op.where(),
      tuple ? "declare the value as a reduction of its own, such as reduce_max"
            : "use sum, prod, max or min, or a reducer that chooses one of its operands");
}

}  // namespace

std::vector<ReadDerivative> differentiate_reduction(const Operation& op, const Expr& head,
                                                    Wanted wanted) {
  const Reduce& r = *op.bodies()[0].as<Reduce>();
  const Combiner& c = *r.combiner;
  if (c.size() > 1) refuse(op, c);
  const Expr& source = r.sources[0];
  if (c.kind == ReduceKind::Sum) return differentiate(source, head, {}, wanted);
  if (c.kind == ReduceKind::Prod)
    return differentiate(source, head_of_product(op, r, head), {}, wanted);
  if (!chooses(c, c.result[0])) refuse(op, c);
  std::vector<ReadDerivative> result = differentiate(source, head, {}, wanted);
  if (result.empty()) return result;
  const Expr winner = is_winner(op, r);
  for (ReadDerivative& d : result)
    d.value = select(winner, d.value, make_const(d.value.dtype(), 0));
  return result;
}

}  // namespace heddle::autodiff
