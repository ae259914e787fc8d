#include "network/cut/scattered_update.h"

#include <algorithm>

#include "dag/patterns/look_through.h"
#include "heddle/dag/scatter.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/replace.h"
#include "ir/sizes.h"
#include "network/cut/step_plan.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::network {
namespace {

/// Whether `load` reads at the first axes of `op`; the index of an axis of one element may be 0.
bool is_own(const Operation& op, const Load& load, size_t rank) {
  if (load.indices.size() != rank || op.axes().size() < rank) return false;
  for (size_t d = 0; d < rank; ++d) {
    const bool zero = is_const(load.indices[d], 0) && is_const(op.axes()[d]->extent, 1);
    if (!zero && !equal(load.indices[d], op.axes()[d])) return false;
  }
  return true;
}

/// The only read in `e`; null where there is none, or several.
const Load* only_load(const Expr& e) {
  const Load* found = nullptr;
  bool several = false;
  visit(e, [&](const Expr& x) {
    const Load* load = x.as<Load>();
    if (!load) return;
    several |= found != nullptr && found != load;
    found = load;
  });
  return several ? nullptr : found;
}

/// The declaration of the last source that names each place.
struct Last {
  const Operation* op = nullptr;
  internal::PlacesOf places;
  Expr number;                 ///< the value of a source, by which the last is found
  std::vector<size_t> common;  ///< axes of `op` that sources have, too
  int64_t sources = 1, points = 1;

  bool is_place(const Var& v) const {
    return std::any_of(places.vars.begin(), places.vars.end(),
                       [&](const Var& p) { return p.same_as(v); });
  }
  /// The extents along which there are sources, the common axes first.
  Shape shape() const {
    Shape all;
    for (const size_t d : common) all.push_back(op->axes()[d]->extent);
    for (const Axis& q : op->reduce_axes()) all.push_back(q->extent);
    return all;
  }
};

std::optional<Last> as_last(const Operation& op) {
  const Reduce* r = dag::reduction_of(op, ReduceKind::Max, 0);
  if (!r || !find_scatter(op)) return std::nullopt;
  const Select* s = r->sources[0].as<Select>();
  std::vector<Var> vars;
  for (const Axis& a : op.axes()) vars.push_back(a.var());
  Last last{&op, internal::places_of(s->condition, vars), s->on_true, {}};
  for (size_t d = 0; d < vars.size(); ++d) {
    const int64_t* extent = as_int(op.axes()[d]->extent);
    if (!extent) return std::nullopt;
    last.points *= *extent;
    if (!last.is_place(vars[d])) last.common.push_back(d);
  }
  for (const Axis& q : op.reduce_axes()) last.sources *= largest_extent(q->extent);
  return last;
}

/// Values of the axes of `last` at a source.
struct Source {
  std::vector<VarBinding> bind;
  Ranges ranges;

  void add(const Axis& axis, const Expr& value) {
    bind.push_back({axis.var(), value});
    if (value.kind() == ExprKind::Var)
      ranges.set(Var::from(value), {0, largest_extent(axis->extent) - 1});
  }
  Expr of(const Expr& e) const { return simplify(substitute(e, bind), ranges); }
};

Source source_at(const Last& last, const std::vector<Axis>& at) {
  Source source;
  for (size_t n = 0; n < last.common.size(); ++n)
    source.add(last.op->axes()[last.common[n]], at[n]);
  for (size_t n = 0; n < last.op->reduce_axes().size(); ++n)
    source.add(last.op->reduce_axes()[n], at[last.common.size() + n]);
  return source;
}

/// The position of a source along axis `d` of `last`.
Expr position(const Last& last, const Source& source, size_t d) {
  const Axis& axis = last.op->axes()[d];
  for (size_t n = 0; n < last.places.vars.size(); ++n) {
    if (last.places.vars[n].same_as(axis.var())) return source.of(last.places.places[n]);
  }
  return source.of(axis);
}

/// The number of the last source with the place of this one.
Tensor last_of_place(const Last& last) {
  return compute(
      last.shape(),
      [&](const std::vector<Axis>& at) {
        const Source here = source_at(last, at);
        std::vector<Axis> others;
        for (const Axis& q : last.op->reduce_axes()) others.push_back(reduce_axis(q->extent, "q"));
        std::vector<Axis> of_other(at.begin(), at.begin() + std::ssize(last.common));
        of_other.insert(of_other.end(), others.begin(), others.end());
        const Source there = source_at(last, of_other);
        Expr same = last.places.rest.defined() ? there.of(last.places.rest) : Expr();
        for (const Expr& place : last.places.places) {
          const Expr equal = there.of(place) == here.of(place);
          same = same.defined() ? Expr(same && equal) : equal;
        }
        return heddle::max(select(same, there.of(last.number), lowest_value(i64)), others);
      },
      last.op->name(), "update", last.op->where());
}

Tensor places_of(const Last& last, const Tensor& table) {
  // Comparing all sources with each other costs less than a table of all places where they are few.
  Tensor rival;
  const bool by_pairs = last.sources <= last.points / last.sources;
  if (last.sources > 1) rival = by_pairs ? last_of_place(last) : table;
  return compute(
      last.shape(),
      [&](const std::vector<Axis>& at) {
        const Source source = source_at(last, at);
        const Expr number = source.of(last.number);
        Expr stored = number >= 0, row = Expr(0);
        if (last.places.rest.defined()) stored = stored && source.of(last.places.rest);
        std::vector<Expr> inside;
        for (size_t d = 0; d < last.op->axes().size(); ++d) {
          const Expr extent = last.op->axes()[d]->extent, p = position(last, source, d);
          stored = stored && Expr(0) <= p && p < extent;
          row = row * extent + p;
          inside.push_back(max(min(p, extent - 1), Expr(0)));
        }
        if (rival)
          stored =
              stored && (by_pairs ? rival.at({at.begin(), at.end()}) : rival.at(inside)) == number;
        return select(stored, row, Expr(int64_t{-1}));
      },
      last.op->name() + ".places", "update", last.op->where());
}

/// Whether two such stages find the same.
bool alike(const Tensor& a, const Tensor& b) {
  const Operation &x = *a.op(), &y = *b.op();
  if (x.axes().size() != y.axes().size() || x.reduce_axes().size() != y.reduce_axes().size())
    return false;
  std::vector<VarBinding> bind;
  const auto pair = [&](const Axis& of_x, const Axis& of_y) {
    bind.push_back({of_y.var(), of_x});
    return equal(of_x->extent, of_y->extent);
  };
  for (size_t d = 0; d < x.axes().size(); ++d) {
    if (!pair(x.axes()[d], y.axes()[d])) return false;
  }
  for (size_t d = 0; d < x.reduce_axes().size(); ++d) {
    if (!pair(x.reduce_axes()[d], y.reduce_axes()[d])) return false;
  }
  return equal(x.bodies()[0].as<Reduce>()->sources[0],
               substitute(y.bodies()[0].as<Reduce>()->sources[0], bind));
}

}  // namespace

std::optional<ScatteredUpdate> ScatteredUpdates::find(const Tensor& next) {
  const Operation& op = *next.op();
  if (op.is_placeholder() || op.is_reduction() || op.num_outputs() != 1) return std::nullopt;
  const Select* choice = op.bodies()[0].as<Select>();
  const Load* state = choice ? choice->on_false.as<Load>() : nullptr;
  const Load* named = choice ? only_load(choice->condition) : nullptr;
  if (!state || !named || !is_own(op, *state, op.axes().size())) return std::nullopt;
  const Expr found = make_load(named->buffer, named->indices);
  const size_t counted = named->indices.size();
  const Tensor table = tensor_of(named->buffer);
  const std::optional<Last> last = as_last(*table.op());
  if (!last || !is_own(op, *named, counted) ||
      !equal(simplify(choice->condition), simplify(found >= 0)))
    return std::nullopt;
  for (size_t d = 0; d < counted; ++d) {
    if (!equal(op.axes()[d]->extent, last->op->axes()[d]->extent)) return std::nullopt;
  }
  auto known = std::find_if(known_.begin(), known_.end(),
                            [&](const Known& k) { return alike(k.last, table); });
  if (known == known_.end()) known = known_.insert(known, {table, places_of(*last, table)});
  const Tensor places = known->places;
  Shape shape = last->shape();
  const size_t of_source = shape.size();
  for (size_t d = counted; d < op.axes().size(); ++d) shape.push_back(op.axes()[d]->extent);
  bool apart = true;
  const Tensor rows = compute(
      shape,
      [&](const std::vector<Axis>& at) {
        Source source = source_at(*last, at);
        Expr row = replace_equal(choice->on_true, found, last->number);
        for (size_t d = 0; d < counted; ++d) {
          const Axis& own = last->op->axes()[d];
          if (!last->is_place(own.var())) source.add(op.axes()[d], source.of(own));
          apart &= !last->is_place(own.var()) || !uses_var(row, op.axes()[d].var());
        }
        for (size_t d = counted; d < op.axes().size(); ++d)
          source.add(op.axes()[d], at[of_source + d - counted]);
        if (!apart)
          return select(Expr(true), make_const(next.dtype(), 0), make_const(next.dtype(), 0));
        row = source.of(row);
        // An axis is less than its extent, whatever that is in a call.
        for (size_t n = 0; n < of_source; ++n)
          row = replace_equal(row, simplify(min(Expr(at[n]), at[n]->extent - 1)), at[n]);
        const std::vector<Expr> q(at.begin(), at.begin() + static_cast<long>(of_source));
        return select(places.at(q) >= 0, row, make_const(next.dtype(), 0));
      },
      op.name(), "update", op.where());
  if (!apart) return std::nullopt;
  return ScatteredUpdate{tensor_of(state->buffer), places, rows};
}

int places_input(const ExtractedNode& node) {
  const Operation& op = *node.task_outputs[0].op();
  if (op.is_reduction() || node.task_outputs.size() != 1) return -1;
  const Select* choice = op.bodies()[0].as<Select>();
  const Load* places = choice ? only_load(choice->condition) : nullptr;
  if (!places || !is_own(op, *places, places->indices.size())) return -1;
  return position_of(node.task_inputs, tensor_of(places->buffer));
}

int64_t rows_of_state(const Tensor& state, const Tensor& rows, const Tensor& places) {
  const int counted = state.rank() - (rows.rank() - places.rank());
  int64_t all = 1;
  for (int d = 0; d < counted; ++d) all *= state.extent(d);
  return all;
}

std::vector<TaskVariants> with_places(const Network& network, std::vector<TaskVariants> variants) {
  std::vector<char> done(variants.size());
  for (const NetworkNode& node : network.nodes()) {
    const auto task = static_cast<size_t>(node.task);
    const int at = position_of(network.states(), node.outputs[0]);
    if (done[task] || at < 0 || !network.states()[static_cast<size_t>(at)].places) continue;
    const StatePlace& place = network.states()[static_cast<size_t>(at)];
    const int input = position_of(node.inputs, place.places);
    HEDDLE_ICHECK(input >= 0, "rows are stored at places that their node reads");
    for (Schedule& s : variants[task].schedules) {
      const ComputeDag& declared = s.dag().direct();
      const ComputeDag& dag = s.state().dag;
      const Tensor places = declared.placeholders()[static_cast<size_t>(input)];
      s[dag.counterpart(declared.outputs()[0])].scatter_rows(
          s[dag.counterpart(places)], rows_of_state(place.state, place.tensor, place.places));
    }
    done[task] = 1;
  }
  return variants;
}

}  // namespace heddle::network
