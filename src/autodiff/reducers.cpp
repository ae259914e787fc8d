#include "autodiff/reducers.h"

#include <limits>
#include <utility>

#include "ir/sizes.h"

namespace heddle::autodiff {
namespace {

std::vector<Expr> exprs(const std::vector<Axis>& axes) { return {axes.begin(), axes.end()}; }

Shape shape_of(const Operation& op) { return op.output(0).shape(); }

/// A reduction over the elements of `op`: `reduce` is given their components and the axes, all of them
/// those of the new stage. Returns its last result.
template <class Reduction>
Tensor reduce_again(const Operation& op, const char* what, const std::vector<Expr>& element,
                    Reduction reduce) {
  return compute_all(
             shape_of(op),
             [&](const std::vector<Axis>& i) {
               std::vector<VarBinding> by;
               for (size_t d = 0; d < i.size(); ++d) by.push_back({op.axes()[d].var(), Expr(i[d])});
               std::vector<Axis> over;
               for (const Axis& a : op.reduce_axes()) {
                 over.push_back(reduce_axis(a->extent, a.name(), op.where()));
                 by.push_back({a.var(), Expr(over.back())});
               }
               std::vector<Expr> now;
               for (const Expr& e : element) now.push_back(substitute(e, by));
               return std::vector<Expr>(reduce(now, over));
             },
             op.name() + "." + what, "gradient", op.where())
      .back();
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
Expr is_winner(const Operation& op, const Reduce& r, size_t output) {
  const Expr source = r.sources[output],
             result = op.output(static_cast<int>(output)).at(exprs(op.axes()));
  Expr hit = source == result;
  if (source.dtype().is_float()) {
    // max and min are NaN where any element is
    const bool spreads = r.combiner->kind == ReduceKind::Max || r.combiner->kind == ReduceKind::Min;
    const Expr nan = isnan(source);
    hit = logical_or(hit, spreads ? nan : logical_and(nan, isnan(result)));
  }
  const Places places(op.reduce_axes());
  const Tensor winner = reduce_again(op, "winner", {select(hit, places.place, places.count)},
                                     [](const std::vector<Expr>& e, const std::vector<Axis>& over) {
                                       return std::vector<Expr>{reduce_min(e[0], over)};
                                     });
  return winner.at(exprs(op.axes())) == places.place;
}

/// What an element of a product receives: the product of the others. Where one element is 0, only it
/// receives anything.
Expr head_of_product(const Operation& op, const Expr& source, const Expr& head) {
  const DataType t = source.dtype();
  const Expr zero = make_const(t, 0), one = make_const(t, 1);
  const Tensor zeros = reduce_again(op, "zeros", {select(source == zero, one, zero)},
                                    [&](const std::vector<Expr>& e, const std::vector<Axis>& over) {
                                      return std::vector<Expr>{sum_in(t, e[0], over)};
                                    });
  const Tensor rest = reduce_again(op, "rest", {select(source == zero, one, source)},
                                   [&](const std::vector<Expr>& e, const std::vector<Axis>& over) {
                                     return std::vector<Expr>{prod_in(t, e[0], over)};
                                   });
  const std::vector<Expr> at = exprs(op.axes());
  const Expr given = product_of(head, rest.at(at)), count = zeros.at(at);
  return select(source == zero, select(count == one, given, zero),
                select(count == zero, given / source, zero));
}

/// Whether component `i` of the combiner is one of its two operands, whatever they are.
bool chooses(const Combiner& c, size_t i, const Expr& e) {
  if (const Select* s = e.as<Select>())
    return chooses(c, i, s->on_true) && chooses(c, i, s->on_false);
  if (const Binary* b = e.as<Binary>(); b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max))
    return chooses(c, i, b->a) && chooses(c, i, b->b);
  return e.get() == c.lhs[i].get() || e.get() == c.rhs[i].get();
}

/// The place that belongs to what `e`, which chooses, gives: `a` to the left operand, `b` to the right.
Expr place_of_choice(const Combiner& c, size_t i, const Expr& e, const Expr& a, const Expr& b) {
  if (const Select* s = e.as<Select>())
    return select(s->condition, place_of_choice(c, i, s->on_true, a, b),
                  place_of_choice(c, i, s->on_false, a, b));
  if (const Binary* m = e.as<Binary>())
    return select(m->op == BinaryOp::Max ? m->a >= m->b : m->a <= m->b,
                  place_of_choice(c, i, m->a, a, b), place_of_choice(c, i, m->b, a, b));
  return e.get() == c.lhs[i].get() ? a : b;
}

/// Whether component `i` of a tuple is that of this element: the choices are made once more, with the
/// place of each element as one more component.
Expr is_chosen(const Operation& op, const Reduce& r, size_t i) {
  const Combiner& c = *r.combiner;
  const Places places(op.reduce_axes());
  std::vector<DataType> types;
  for (const Expr& e : c.identity) types.push_back(e.dtype());
  types.push_back(places.place.dtype());
  std::vector<Expr> identity = c.identity, element = r.sources;
  identity.push_back(make_int(types.back(), -1));
  element.push_back(places.place);
  const Reducer with_place = reducer(
      c.name + "_place", types, identity,
      [&](const std::vector<Expr>& a, const std::vector<Expr>& b) {
        std::vector<VarBinding> by;
        for (size_t k = 0; k < c.size(); ++k) {
          by.push_back({c.lhs[k], a[k]});
          by.push_back({c.rhs[k], b[k]});
        }
        std::vector<Expr> all;
        for (const Expr& e : c.result) all.push_back(substitute(e, by));
        all.push_back(substitute(place_of_choice(c, i, c.result[i], a.back(), b.back()), by));
        return all;
      },
      c.commutative, op.where());
  const Tensor winner = reduce_again(
      op, "winner", element, [&](const std::vector<Expr>& e, const std::vector<Axis>& over) {
        return with_place(e, over);
      });
  return winner.at(exprs(op.axes())) == places.place;
}

/// How component `i` is combined: that of its own two operands, where no other matters.
ReduceKind kind_of(const Combiner& c, size_t i) {
  if (c.kind != ReduceKind::Custom) return c.kind;
  const Binary* b = c.result[i].as<Binary>();
  const auto are = [&](const Expr& x, const Expr& y) {
    return x.get() == c.lhs[i].get() && y.get() == c.rhs[i].get();
  };
  if (!b || !(are(b->a, b->b) || are(b->b, b->a))) return ReduceKind::Custom;
  return b->op == BinaryOp::Add   ? ReduceKind::Sum
         : b->op == BinaryOp::Mul ? ReduceKind::Prod
                                  : ReduceKind::Custom;
}

[[noreturn]] void refuse(const Operation& op, const Combiner& c) {
  throw_user_error(
      "'" + op.name() + "' has no gradient: the reducer '" + c.name + "' has no derivative",
      op.where(),
      "use sum, prod, max or min, or a reducer that chooses one of its operands, or "
      "declare its derivative (GradientOptions::reducers)");
}

/// The derivatives by a declared rule.
std::vector<ReadDerivative> by_rule(const Operation& op, const Reduce& r, size_t output,
                                    const Expr& head, Wanted wanted,
                                    const ReducerDerivative& declared) {
  std::vector<Expr> result, heads;
  for (size_t i = 0; i < r.sources.size(); ++i) {
    result.push_back(op.output(static_cast<int>(i)).at(exprs(op.axes())));
    heads.push_back(i == output ? head : make_const(r.sources[i].dtype(), 0));
  }
  const std::vector<Expr> given = declared.rule(r.sources, result, heads);
  if (given.size() != r.sources.size())
    throw_user_error("the derivative of the reducer '" + r.combiner->name + "' gives " +
                         std::to_string(given.size()) + " values for " +
                         std::to_string(r.sources.size()) + " components",
                     op.where(), "return what each component of an element receives");
  std::vector<ReadDerivative> all;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!r.sources[i].dtype().is_float()) continue;
    if (given[i].dtype() != r.sources[i].dtype())
      throw_user_error("the derivative of the reducer '" + r.combiner->name + "' gives " +
                           to_string(given[i].dtype()) + " for a component of " +
                           to_string(r.sources[i].dtype()),
                       op.where(), "return the types of the components");
    const std::vector<ReadDerivative> reads = differentiate(r.sources[i], given[i], {}, wanted);
    all.insert(all.end(), reads.begin(), reads.end());
  }
  return all;
}

}  // namespace

const ReducerDerivative* declared_derivative(const Operation& op,
                                             const std::vector<ReducerDerivative>& declared) {
  const Reduce* r = op.bodies()[0].as<Reduce>();
  for (const ReducerDerivative& d : declared)
    if (r && d.reducer.combiner().get() == r->combiner.get()) return &d;
  return nullptr;
}

std::vector<ReadDerivative> differentiate_reduction(
    const Operation& op, int output, const Expr& head, Wanted wanted,
    const std::vector<ReducerDerivative>& declared) {
  const Reduce& r = *op.bodies()[0].as<Reduce>();
  const Combiner& c = *r.combiner;
  const auto i = static_cast<size_t>(output);
  if (const ReducerDerivative* rule = declared_derivative(op, declared))
    return by_rule(op, r, i, head, wanted, *rule);
  const Expr& source = r.sources[i];
  const ReduceKind kind = kind_of(c, i);
  if (kind == ReduceKind::Sum) return differentiate(source, head, {}, wanted);
  if (kind == ReduceKind::Prod)
    return differentiate(source, head_of_product(op, source, head), {}, wanted);
  if (!chooses(c, i, c.result[i])) refuse(op, c);
  std::vector<ReadDerivative> result = differentiate(source, head, {}, wanted);
  if (result.empty()) return result;
  const Expr winner = c.size() > 1 ? is_chosen(op, r, i) : is_winner(op, r, i);
  for (ReadDerivative& d : result)
    d.value = select(winner, d.value, make_const(d.value.dtype(), 0));
  return result;
}

}  // namespace heddle::autodiff
