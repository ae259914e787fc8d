#include "heddle/ops/scatter.h"

#include <functional>
#include <utility>

#include "heddle/ir/simplify.h"
#include "heddle/ops/elementwise.h"
#include "ir/data_index.h"
#include "ops/common.h"
#include "ops/index_box.h"
#include "ops/known_indices.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::check_indices;
using impl::Dims;

// The element of `indices` at `at`, read where its copies (broadcast, transposed) have it from: they
// hide that a row of updates has one place, which makes the row a vector that is stored.
Expr index_at(Tensor indices, std::vector<Expr> at) {
  while (!indices.op()->is_placeholder()) {
    const Operation& op = *indices.op();
    const Load* from = op.bodies()[static_cast<size_t>(indices.index())].as<Load>();
    const Tensor source = from ? tensor_of(from->buffer) : Tensor{};
    if (!source) break;
    std::vector<VarBinding> axes;
    for (size_t d = 0; d < at.size(); ++d) axes.push_back({op.axes()[d].var(), at[d]});
    at = {};
    for (const Expr& index : from->indices) at.push_back(simplify(substitute(index, axes)));
    indices = source;
  }
  return indices.at(std::move(at));
}

// The effect of updates on an element. `hits(q)` says whether the update at q names the element,
// and `update(q)` is that update. For Replace the flat position of the last hit is found first.
struct Scatter {
  Call call;
  Tensor x;
  Dims updates;  // the extents that q runs over
  int named;     // how many dimensions of x say which update an element gets
  std::function<Expr(const std::vector<Axis>& i, const std::vector<Expr>& q)> hits = {},
                                                                              update = {};
  std::optional<impl::IndexBox> box = {};  // the places, where they are known to be a box
  std::function<Expr(const std::vector<Axis>& i)> inside = {};  // what else a place in it needs

  std::vector<Axis> axes() const {
    std::vector<Axis> q;
    for (const int64_t extent : updates) q.push_back(reduce_axis(extent, "q", call.where));
    return q;
  }

  Tensor replace() const {
    const std::vector<Axis> q = axes();
    const Tensor last = compute(
        Shape(x.shape().begin(), x.shape().begin() + named),
        [&](const std::vector<Axis>& i) {
          Expr flat = Expr(0);
          for (size_t d = 0; d < q.size(); ++d) flat = flat * updates[d] + q[d];
          return heddle::max(select(hits(i, impl::exprs(q)), flat, lowest_value(i64)), q);
        },
        std::string(call.op) + "_last", call.op, call.where);
    return compute(
        x.shape(),
        [&](const std::vector<Axis>& i) {
          const Expr found = last.at({i.begin(), i.begin() + named}), flat = max(found, Expr(0));
          std::vector<Expr> at(updates.size());
          int64_t stride = 1;
          for (size_t d = updates.size(); d-- > 0;) {
            const Expr place = floordiv(flat, stride);
            at[d] = d == 0 ? min(place, Expr(updates[0] - 1)) : floormod(place, updates[d]);
            stride *= updates[d];
          }
          return select(found >= 0, update(i, at), x(i));
        },
        call.op, call.op, call.where);
  }

  static Expr merged(ScatterReduction reduction, const Expr& a, const Expr& b) {
    switch (reduction) {
      case ScatterReduction::Replace: return b;
      case ScatterReduction::Add: return a + b;
      case ScatterReduction::Mul: return a * b;
      case ScatterReduction::Max: return heddle::max(a, b);
      case ScatterReduction::Min: return heddle::min(a, b);
    }
    return b;
  }

  // Of a box of places each has one update: no search for it.
  Tensor in_box(const impl::IndexBox& box, ScatterReduction reduction) const {
    return compute(
        x.shape(),
        [&](const std::vector<Axis>& i) {
          Expr in = inside ? inside(i) : make_const(boolean, 1);
          std::vector<Expr> q(updates.size(), Expr(0));
          for (const impl::BoxSide& side : box) {
            const Axis& position = i[static_cast<size_t>(side.dimension)];
            in = heddle::logical_and(in, impl::is_in(side, position));
            if (side.axis >= 0) q[static_cast<size_t>(side.axis)] = impl::index_in(side, position);
          }
          return select(in, merged(reduction, x(i), update(i, q)), x(i));
        },
        call.op, call.op, call.where);
  }

  template <class Reduce>
  Tensor combined(const Expr& neutral, ScatterReduction reduction, Reduce reduce) const {
    const std::vector<Axis> q = axes();
    const Tensor all = compute(
        x.shape(),
        [&](const std::vector<Axis>& i) {
          return Expr(
              reduce(select(hits(i, impl::exprs(q)), update(i, impl::exprs(q)), neutral), q));
        },
        std::string(call.op) + "_updates", call.op, call.where);
    return compute(
        x.shape(), [&](const std::vector<Axis>& i) { return merged(reduction, x(i), all(i)); },
        call.op, call.op, call.where);
  }

  Tensor declare(ScatterReduction reduction) const {
    const DataType t = x.dtype();
    using Axes = std::vector<Axis>;
    if (box) return in_box(*box, reduction);
    switch (reduction) {
      case ScatterReduction::Replace: return replace();
      case ScatterReduction::Add:
        return combined(make_const(t, 0), reduction,
                        [](const Expr& e, const Axes& q) { return heddle::sum(e, q); });
      case ScatterReduction::Mul:
        return combined(make_const(t, 1), reduction,
                        [](const Expr& e, const Axes& q) { return heddle::prod(e, q); });
      case ScatterReduction::Max:
        return combined(lowest_value(t), reduction,
                        [](const Expr& e, const Axes& q) { return heddle::max(e, q); });
      case ScatterReduction::Min:
        return combined(highest_value(t), reduction,
                        [](const Expr& e, const Axes& q) { return heddle::min(e, q); });
    }
    return {};
  }
};

}  // namespace

Tensor gather_nd(const Tensor& x, const Tensor& indices, int batch_dims, Where where) {
  const Call call{"gather_nd", where};
  impl::check_rank(call, x, "x", 1);
  check_indices(call, indices, 1);
  const int k = static_cast<int>(indices.extent(-1)), b = batch_dims;
  bool fits = b >= 0 && b < indices.rank() && b + k <= x.rank();
  for (int d = 0; fits && d < b; ++d) fits = x.extent(d) == indices.extent(d);
  if (!fits)
    impl::fail(call, "'indices' " + impl::text(indices.extents()) + " does not fit x " +
                         impl::text(x.extents()) + " with " + std::to_string(b) +
                         " common dimensions");
  const Dims from = x.extents(), outer = indices.extents();
  impl::check_known_indices(call, x, indices, {from.begin() + b, from.begin() + b + k});
  Dims dims(outer.begin(), outer.end() - 1);
  dims.insert(dims.end(), from.begin() + b + k, from.end());
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        const auto rest = i.begin() + (indices.rank() - 1);
        std::vector<Expr> at(i.begin(), i.begin() + b);
        for (int d = 0; d < k; ++d) {
          std::vector<Expr> place(i.begin(), rest);
          place.emplace_back(d);
          at.push_back(clamped_index(indices.at(std::move(place)), x.extent(b + d)));
        }
        at.insert(at.end(), rest, i.end());
        return x.at(std::move(at));
      },
      call.op, call.op, where);
}

Tensor scatter_elements(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis,
                        ScatterReduction reduction, Where where) {
  const Call call{"scatter_elements", where};
  impl::check_rank(call, x, "x", 1);
  check_indices(call, indices, 1);
  impl::check_same_type(call, x, updates);
  axis = impl::normal_axis(call, axis, x.rank());
  bool fits = indices.rank() == x.rank() && indices.extents() == updates.extents();
  for (int d = 0; fits && d < x.rank(); ++d) fits = d == axis || indices.extent(d) <= x.extent(d);
  if (!fits)
    impl::fail(call, "'indices' " + impl::text(indices.extents()) + " and 'updates' " +
                         impl::text(updates.extents()) + " do not fit x " +
                         impl::text(x.extents()) + " along axis " + std::to_string(axis));
  impl::check_known_indices(call, x, indices, {x.extent(axis)});
  if (updates.size() == 0) return identity(x, where);
  const auto d = static_cast<size_t>(axis);
  // The position of update q for element i. Where there is no such update, it is the nearest one,
  // which is ignored.
  const auto place = [&](const std::vector<Axis>& i, const Expr& q) {
    std::vector<Expr> at = impl::exprs(i);
    for (size_t e = 0; e < at.size(); ++e) {
      if (indices.extent(static_cast<int>(e)) < x.extent(static_cast<int>(e)))
        at[e] = min(at[e], Expr(indices.extent(static_cast<int>(e)) - 1));
    }
    at[d] = q;
    return at;
  };
  Scatter scatter{call, x, {indices.extent(axis)}, x.rank()};
  scatter.inside = [&](const std::vector<Axis>& i) {
    Expr in = make_const(boolean, 1);
    for (size_t e = 0; e < i.size(); ++e) {
      const int64_t there = indices.extent(static_cast<int>(e));
      if (e != d && there < x.extent(static_cast<int>(e)))
        in = heddle::logical_and(in, Expr(i[e]) < there);
    }
    return in;
  };
  scatter.hits = [&](const std::vector<Axis>& i, const std::vector<Expr>& q) {
    return heddle::logical_and(
        from_end(index_at(indices, place(i, q[0])), x.extent(axis)) == Expr(i[d]),
        scatter.inside(i));
  };
  if (const auto side = impl::side_along(indices, axis, x.extent(axis))) scatter.box = {*side};
  scatter.update = [&](const std::vector<Axis>& i, const std::vector<Expr>& q) {
    return updates.at(place(i, q[0]));
  };
  return scatter.declare(reduction);
}

Tensor scatter_nd(const Tensor& x, const Tensor& indices, const Tensor& updates,
                  ScatterReduction reduction, Where where) {
  const Call call{"scatter_nd", where};
  impl::check_rank(call, x, "x", 1);
  check_indices(call, indices, 1);
  impl::check_same_type(call, x, updates);
  const int k = static_cast<int>(indices.extent(-1));
  const Dims from = x.extents(), named = indices.extents();
  Dims outer(named.begin(), named.end() - 1), wanted = outer;
  if (k <= x.rank()) wanted.insert(wanted.end(), from.begin() + k, from.end());
  if (k > x.rank() || updates.extents() != wanted)
    impl::fail(call, "'indices' " + impl::text(named) + " and 'updates' " +
                         impl::text(updates.extents()) + " do not fit x " + impl::text(from));
  impl::check_known_indices(call, x, indices, {from.begin(), from.begin() + k});
  if (updates.size() == 0) return identity(x, where);
  if (outer.empty()) outer = {1};  // one update
  const bool one = named.size() == 1;
  Scatter scatter{call, x, outer, k};
  scatter.box = impl::box_of_rows(indices, {from.begin(), from.begin() + k});
  scatter.hits = [&](const std::vector<Axis>& i, const std::vector<Expr>& q) {
    Expr hit = make_const(boolean, 1);  // of no dimensions: all elements
    for (int d = 0; d < k; ++d) {
      std::vector<Expr> at = one ? std::vector<Expr>{} : q;
      at.emplace_back(d);
      const Expr same = from_end(index_at(indices, std::move(at)), x.extent(d)) ==
                        Expr(i[static_cast<size_t>(d)]);
      hit = d == 0 ? same : heddle::logical_and(hit, same);
    }
    return hit;
  };
  scatter.update = [&](const std::vector<Axis>& i, const std::vector<Expr>& q) {
    std::vector<Expr> at = one ? std::vector<Expr>{} : q;
    at.insert(at.end(), i.begin() + k, i.end());
    return updates.at(std::move(at));
  };
  return scatter.declare(reduction);
}

}  // namespace heddle::ops
