#include "autodiff/gather.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autodiff/derivative.h"
#include "autodiff/deviations.h"
#include "autodiff/inverse.h"
#include "autodiff/narrow_products.h"
#include "autodiff/pad_factors.h"
#include "autodiff/proved_reads.h"
#include "autodiff/summation.h"
#include "heddle/ir/simplify.h"
#include "ir/linear.h"
#include "ir/sizes.h"

namespace heddle::autodiff {
namespace {

class Gather {
 public:
  Gather(const Source& from, const Load& read, const Expr& value)
      : Gather(from, read, Summation(inverse_of(from, read), value)) {}

  Summand run() {
    if (!sum_.narrow()) return {};
    if (sum_.inverse.loops.empty()) return in_place();
    if (!from_.is_asked_for && sum_.open_conditions().empty() &&
        sums_deviations(sum_.value, sum_.inverse.loops))
      return {};
    if (is_short()) return written_out();
    if (phases_are_uneven()) return {of_phases(sum_, 0), {}, {}};
    return summed();
  }

 private:
  Gather(const Source& from, const Load& read, Summation sum)
      : from_(from), read_(read), sum_(std::move(sum)) {}

  /// Phases of the elements that are used have the extents of what is read, which needs no padding.
  static Inverse inverse_of(const Source& from, const Load& read) {
    const auto invert_in = [&](const std::vector<Interval>& region) {
      return invert(read.buffer->shape, read.indices, from.axes, region);
    };
    Inverse all = invert_in({});
    const auto is_phase = [](const Position& p) { return p.phase; };
    return std::ranges::any_of(all.positions, is_phase) ? invert_in(from.region) : std::move(all);
  }

  /// `body`, in terms of the indices, as a function of them.
  Element element_of(const Expr& body) const {
    return [indices = sum_.inverse.indices, body](const std::vector<Expr>& at) {
      std::vector<VarBinding> by;
      for (size_t d = 0; d < at.size(); ++d) by.push_back({indices[d], at[d]});
      return substitute(body, by);
    };
  }

  /// An expression of positions, at the indices; 0 where nothing reads.
  Summand placed(const Expr& body) const {
    std::vector<VarBinding> places;
    for (const Position& p : sum_.inverse.positions) places.push_back({p.var, p.place});
    return {element_of(guarded(sum_.inverse.exists, substitute(body, places))), {}, {}};
  }

  /// Each element is read at one point at most, so nothing is summed.
  Summand in_place() const { return placed(sum_.guarded_value()); }

  /// Whether a few points are summed, under conditions that differ: fewer operations than a loop has.
  bool is_short() const {
    constexpr int64_t kShort = 4;
    const int64_t points = sum_.points();
    return points > 0 && points <= kShort && !sum_.open_conditions().empty();
  }

  /// The sum as an expression.
  Summand written_out() const {
    const DataType t = read_.dtype, wide = t.is_small_float() ? DataType(f32) : t;
    Expr total;
    std::vector<int64_t> at(sum_.inverse.loops.size(), 0);
    do {
      Summation point = sum_;
      for (size_t l = 0; l < at.size(); ++l) point.fix(sum_.inverse.loops[l].var, at[l]);
      if (point.narrow()) total = sum_of(total, cast(wide, point.guarded_value()));
    } while (advance(sum_.inverse.loops, &at));
    return placed(total.defined() ? cast(t, total) : make_const(t, 0));
  }

  /// The next of all combinations of values; false after the last.
  template <class Ranged>
  static bool advance(const std::vector<Ranged>& over, std::vector<int64_t>* at) {
    for (size_t i = at->size(); i-- > 0;) {
      if (++(*at)[i] < largest_extent(over[i].extent)) return true;
      (*at)[i] = 0;
    }
    return false;
  }

  std::vector<Position> phases() const {
    std::vector<Position> result;
    for (const Position& p : sum_.inverse.positions)
      if (p.phase) result.push_back(p);
    return result;
  }

  /// Whether the phases of a stride have fewer points together than if all had as many as the longest:
  /// of 3 taps with a stride of 2, two and one. Products of 16-bit floats are for matrix units, which
  /// compute one wide product sooner than several narrow ones unless most of it is padding.
  bool phases_are_uneven() const {
    constexpr int64_t kMost = 8;
    const std::vector<Position> all = phases();
    int64_t count = 1, points = 0;
    for (const Position& p : all) count *= largest_extent(p.extent);
    if (all.empty() || count > kMost || sum_.points() < 0) return false;
    std::vector<int64_t> at(all.size(), 0);
    do {
      Summation phase = sum_;
      for (size_t n = 0; n < at.size(); ++n) phase.fix(all[n].var, at[n]);
      if (phase.narrow()) points += phase.points();
    } while (advance(all, &at));
    const int64_t together = count * sum_.points();
    return read_.dtype.is_small_float() ? 2 * points < together : points < together;
  }

  /// A sum for each phase, with the taps that it has, and a choice by the index. `sum` has one value
  /// for the first `fixed` phases.
  Element of_phases(const Summation& sum, size_t fixed) const {
    const std::vector<Position> all = phases();
    if (fixed == all.size()) {
      Gather one(from_, read_, sum);
      one.sum_.inverse.split = true;
      one.sum_.keep_elements();
      if (!one.sum_.narrow()) return element_of(make_const(read_.dtype, 0));
      return (one.sum_.inverse.loops.empty() ? one.in_place() : one.summed()).element;
    }
    std::vector<Element> each;
    for (int64_t v = 0; v < largest_extent(all[fixed].extent); ++v) {
      Summation one = sum;
      one.fix(all[fixed].var, v);
      each.push_back(of_phases(one, fixed + 1));
    }
    const Element which = element_of(all[fixed].place);
    return [each, which](const std::vector<Expr>& at) {
      Expr chosen = each.back()(at);
      for (size_t v = each.size() - 1; v-- > 0;)
        chosen = select(which(at) == Expr(static_cast<int64_t>(v)), each[v](at), chosen);
      return chosen;
    };
  }

  Summand summed() {
    if (sum_.conditions.empty()) {
      if (const std::optional<Expr> padded =
              pad_factors(sum_.value, sum_.inverse.bounds, sum_.ranges, from_.where)) {
        sum_.value = *padded;
        sum_.inverse.bounds.clear();
      }
    }
    const Expr factor = make_narrow();
    put_short_positions_first();
    const Tensor stage = declare();
    const Inverse& inverse = sum_.inverse;
    if (factor.defined()) {
      std::vector<Expr> at;
      for (const Position& p : inverse.positions) at.emplace_back(p.var);
      return {placed(cast(read_.dtype, stage.at(at) * factor)).element, {}, stage};
    }
    if (!inverse.split && inverse.exists.empty())
      return {[stage](const std::vector<Expr>& at) { return stage.at(at); }, stage, stage};
    std::vector<Expr> place;
    for (const Position& p : inverse.positions) place.push_back(p.place);
    return {element_of(guarded(inverse.exists, stage.at(place))), {}, stage};
  }

  /// Makes the value a product of 16-bit operands where it can be one; what multiplies its sum, in terms
  /// of the positions, or null.
  Expr make_narrow() {
    const Cast* c = sum_.value.as<Cast>();
    if (!c || !read_.dtype.is_small_float() || !sum_.open_conditions().empty()) return {};
    const Inverse& inverse = sum_.inverse;
    const std::optional<NarrowProduct> narrow =
        narrow_product(c->value, inverse.positions, inverse.loops, from_.where);
    if (!narrow) return {};
    sum_.value = narrow->factor.defined() ? narrow->product : cast(read_.dtype, narrow->product);
    return narrow->factor;
  }

  /// The last dimension of a sum is computed in vectors. Where it has a few values, such as the taps of
  /// a filter or the phases of a stride, and another has more, it becomes one of the first; what reads
  /// the sum puts it back.
  void put_short_positions_first() {
    constexpr int64_t kShort = 8;
    std::vector<Position>& all = sum_.inverse.positions;
    const auto is_short = [](const Position& p) { return largest_extent(p.extent) < kShort; };
    if (all.empty() || !is_short(all.back()) || std::all_of(all.begin(), all.end(), is_short))
      return;
    std::stable_partition(all.begin(), all.end(), is_short);
    sum_.inverse.split = true;
  }

  /// The sum at each position.
  Tensor declare() const {
    Shape shape;
    for (const Position& p : sum_.inverse.positions) shape.push_back(p.extent);
    std::vector<VarBinding> extents;
    for (const Position& p : sum_.inverse.positions) extents.push_back({p.var, p.extent});
    for (const Loop& l : sum_.inverse.loops) extents.push_back({l.var, l.extent});
    const Expr value = with_proved_reads(extents, sum_.guarded_value());
    return compute(
        shape,
        [&](const std::vector<Axis>& i) {
          std::vector<VarBinding> by;
          for (size_t d = 0; d < i.size(); ++d)
            by.push_back({sum_.inverse.positions[d].var, Expr(i[d])});
          std::vector<Axis> over;
          for (const Loop& l : sum_.inverse.loops) {
            over.push_back(reduce_axis(l.extent, l.var->name, from_.where));
            by.push_back({l.var, Expr(over.back())});
          }
          return sum_converted(substitute(value, by), over);
        },
        from_.name, "gradient", from_.where);
  }

  /// The sum in the type of the read tensor. A value that was rounded to it is summed before it is
  /// rounded.
  Expr sum_converted(const Expr& value, const std::vector<Axis>& over) const {
    const DataType t = read_.dtype;
    const Cast* c = value.as<Cast>();
    if (c && t.is_small_float() && c->value.dtype() == f32)
      return cast(t, sum_in(f32, c->value, over));
    return sum(value, over);
  }

  const Source& from_;
  const Load& read_;
  Summation sum_;
};

}  // namespace

bool only_moves(const Expr& body, bool chosen) {
  if (is_const(body)) return true;
  if (const Select* s = body.as<Select>(); s && chosen)
    return !has_load(s->condition) && only_moves(s->on_true, true) && only_moves(s->on_false, true);
  const Cast* c = body.as<Cast>();
  return body.kind() == ExprKind::Load || (c && only_moves(c->value, chosen));
}

Summand gather(const Source& from, const Load& read, const Expr& value) {
  return Gather(from, read, value).run();
}

const Load* rounded_sum(const Operation& op) {
  if (op.is_placeholder() || op.num_outputs() != 1) return nullptr;
  const Cast* c = op.bodies()[0].as<Cast>();
  const Load* load = c && c->dtype.is_small_float() ? c->value.as<Load>() : nullptr;
  const bool same =
      load && std::ranges::equal(load->indices, op.axes(), [](const Expr& i, const Axis& a) {
        return i.get() == a.var().get();
      });
  return same && tensor_of(load->buffer).op()->is_reduction() ? load : nullptr;
}

Expr read_through(const Tensor& t, const std::vector<Expr>& indices) {
  const Operation& op = *t.op();
  if (op.is_placeholder() || op.is_reduction() || op.num_outputs() != 1 ||
      !only_moves(op.bodies()[0]) || rounded_sum(op))
    return t.at(indices);
  std::vector<VarBinding> by;
  for (size_t d = 0; d < indices.size(); ++d) by.push_back({op.axes()[d].var(), indices[d]});
  return substitute(op.bodies()[0], by);
}

}  // namespace heddle::autodiff
