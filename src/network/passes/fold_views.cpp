// Folds a change of shape after a product into the product: the product and its element-wise
// readers are computed in the shape that the next reader has.
//
//   p[i, n]    = sum over k of x[i, k] * w[k, n]                                    (before)
//   y[i, n]    = p[i, n] + bias[n]
//   v[b, s, n] = y[s, n]                     a change of shape alone, the only reader of y
//   z[b, s, n] = v[b, s, n] + residual[b, s, n]
//
//   p[b, s, n] = sum over k of x[s, k] * w[k, n]                                    (after)
//   y[b, s, n] = p[b, s, n] + bias[n]
//   z[b, s, n] = y[b, s, n] + residual[b, s, n]
//
// Now z is an epilogue of the product. The pass applies where all indices stay as simple as they
// were: rows and columns of an image that are a quotient and a remainder of one axis suit no
// kernel of convolutions.
//
// On GPUs a transpose that moves short dimensions alone is such a view (fold_short_transposes). The gradient
// of a filter is declared with its taps first, because vectors of a CPU run along the last dimension. It runs
// once images have their layout: an operand that lies along the last of the long dimensions, as one with
// channels innermost, is read by vectors in the order that is declared.
//
//   g[r, s, k, c] = sum of x[..] * y[..];  dw[k, c, r, s] = g[r, s, k, c]           (before)
//   dw[k, c, r, s] = sum of x[..] * y[..]                                           (after)
//
// A result that is no image, such as the phases of a strided convolution's gradient, is stored there with the
// dimension innermost along which its readers go (last_as_read):
//
//   p[a, b, n, c, y, x] = sum of ..;  z[n, y, x, c] = p[y % 2, x % 2, n, c, y / 2, x / 2]      (before)
//   p[a, b, n, y, x, c] = sum of ..;  z[n, y, x, c] = p[y % 2, x % 2, n, y / 2, x / 2, c]      (after)
#include <algorithm>
#include <utility>

#include "dag/map_loads.h"
#include "dag/rewrites/rebuilder.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"
#include "network/passes/product_chain.h"

namespace heddle::network {
namespace {

/// The stages of a chain in the shape of the view that ends it.
class Reshaper {
 public:
  Reshaper(const ComputeDag& dag, const Operation& view) : dag_(dag), view_(view) {}

  /// Returns a null tensor where an index would become less simple.
  Tensor run(const std::vector<int>& chain) {
    Tensor made;
    const Operation* before = nullptr;
    for (const int s : chain) {
      made = reshaped(dag_.stage(s), before, made);
      if (!made) return {};
      before = &dag_.stage(s);
    }
    return made;
  }

 private:
  /// `op` with `made` in place of the stage `before`.
  Tensor reshaped(const Operation& op, const Operation* before, const Tensor& made) {
    const FreshAxes fresh(view_);
    const Load& read = *moved_read(view_);
    std::vector<VarBinding> to;
    for (size_t d = 0; d < op.axes().size(); ++d)
      to.push_back({op.axes()[d].var(), substitute(read.indices[d], fresh.bindings)});
    Ranges ranges = ranges_of(op);
    for (const Axis& a : fresh.axes) ranges.set(a.var(), {0, a.extent() - 1});
    bool simple = true;
    std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
      if (before != nullptr && load.buffer == before->output_buffer(0))
        return make_load(made.buffer(), {fresh.axes.begin(), fresh.axes.end()});
      return moved(load, to, ranges, simple);
    });
    if (!simple) return {};
    for (Expr& body : bodies) body = substitute(body, to);
    const Ref<const Operation> again = declared_again(op, fresh.axes, std::move(bodies));
    return again ? again->output(0) : Tensor();
  }

  /// Another read of `op`, at the new axes. Where it is simpler, it reads what a mover reads.
  static Expr moved(const Load& load, const std::vector<VarBinding>& to, const Ranges& ranges,
                    bool& simple) {
    std::vector<Expr> at;
    for (const Expr& i : load.indices) at.push_back(simplify(substitute(i, to), ranges));
    if (as_simple(at, load.indices)) return make_load(load.buffer, std::move(at));
    const Operation& mover = *tensor_of(load.buffer).op();
    if (const Load* source = moved_read(mover)) {
      at = read_through(mover, at, ranges);
      if (as_simple(at, load.indices)) return make_load(source->buffer, std::move(at));
    }
    simple = false;
    return make_load(load.buffer, load.indices);
  }

  static bool as_simple(std::span<const Expr> at, std::span<const Expr> before) {
    return composed_indices(at) <= composed_indices(before) &&
           (any_division(before) || !any_division(at));
  }

  const ComputeDag& dag_;
  const Operation& view_;
};

constexpr int64_t kShort = 8;  // a dimension that may lie in any order

/// Whether `op` moves its short dimensions, and the others stay in their order.
bool moves_short_dimensions(const Operation& op) {
  const Load* read = moved_read(op);
  if (read == nullptr || op.output(0).size() != tensor_of(read->buffer).size()) return false;
  std::vector<char> found(op.axes().size());
  int last = -1;
  for (const Expr& i : read->indices) {
    if (is_const(i, 0)) continue;  // a dimension of one element
    const auto is_it = [&](const Axis& a) { return a.var().get() == i.get(); };
    const auto axis = std::find_if(op.axes().begin(), op.axes().end(), is_it);
    if (axis == op.axes().end()) return false;
    const int at = static_cast<int>(axis - op.axes().begin());
    if (std::exchange(found[static_cast<size_t>(at)], 1) != 0) return false;
    if (axis->extent() < kShort) continue;
    if (at < last) return false;
    last = at;
  }
  return true;
}

/// Whether product `s` reads an operand whose elements lie along its last axis.
bool reads_along_last(const ComputeDag& dag, int s) {
  const Axis& last = dag.stage(s).axes().back();
  return std::ranges::any_of(dag.info(s).reads, [&](const Access& a) {
    return !a.indices.empty() && a.indices.back().get() == last.var().get();
  });
}

/// Computes products in the shape of the views behind them that `is_view` takes.
template <class IsView>
std::vector<Tensor> fold(const PassContext& context, IsView is_view) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  std::vector<char> taken(static_cast<size_t>(dag.size()));
  int folded = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& view = dag.stage(s);
    if (view.is_placeholder() || !is_view(view)) continue;
    const std::vector<int> chain = chain_to(dag, dag.info(s).producers.front());
    const auto is_taken = [&](int x) { return taken[static_cast<size_t>(x)] != 0; };
    if (chain.empty() || std::any_of(chain.begin(), chain.end(), is_taken)) continue;
    if (!keeps_order(view) && reads_along_last(dag, chain.front())) continue;
    const Tensor made = Reshaper(dag, view).run(chain);
    if (!made) continue;
    for (const int x : chain) taken[static_cast<size_t>(x)] = 1;
    rebuilder.replace(view.output(0), made);
    ++folded;
  }
  if (folded == 0) return dag.outputs();
  context.changed(std::to_string(folded) +
                  " products are computed in the shape that their readers have");
  return rebuilder.rebuild(dag.outputs());
}

/// The dimension of `s` along which each reader goes with its own last axis; -1 where that is the last one,
/// or not the same.
int dimension_as_read(const ComputeDag& dag, int s) {
  int found = -1;
  for (const int r : dag.info(s).consumers) {
    if (dag.stage(r).axes().empty()) return -1;
    const Axis& last = dag.stage(r).axes().back();
    for (const Access& a : dag.info(r).reads) {
      if (a.producer != s) continue;
      const auto is_last = [&](const Expr& i) { return i.get() == last.var().get(); };
      const auto at = std::ranges::find_if(a.indices, is_last);
      const auto d = static_cast<int>(at - a.indices.begin());
      if (at == a.indices.end() || a.indices.end() - at == 1 || (found >= 0 && found != d))
        return -1;
      found = d;
    }
  }
  return found;
}

/// `t` with dimension `d` behind the others.
Tensor with_last(const Tensor& t, int d) {
  Shape shape = t.shape();
  std::rotate(shape.begin() + d, shape.begin() + d + 1, shape.end());
  return compute(shape, [&](const std::vector<Axis>& i) {
    std::vector<Expr> at(i.begin(), i.end());
    std::rotate(at.begin() + d, at.end() - 1, at.end());
    return make_load(t.buffer(), std::move(at));
  });
}

/// What `with_last` made, in the order of before.
Tensor in_order_of(const Tensor& made, const Tensor& t, int d) {
  return compute(t.shape(), [&](const std::vector<Axis>& i) {
    std::vector<Expr> at(i.begin(), i.end());
    std::rotate(at.begin() + d, at.begin() + d + 1, at.end());
    return make_load(made.buffer(), std::move(at));
  });
}

}  // namespace

std::vector<Tensor> last_as_read(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  if (!context.target.is_cuda()) return dag.outputs();
  dag::Rebuilder rebuilder;
  int moved = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    if (op.is_placeholder() || dag.info(s).is_output || op.num_outputs() != 1) continue;
    const std::vector<int> chain = chain_to(dag, s);
    if (chain.empty() || reads_along_last(dag, chain.front())) continue;
    const int d = dimension_as_read(dag, s);
    if (d < 0 || op.axes()[static_cast<size_t>(d)].largest_extent() < kShort) continue;
    const Tensor t = op.output(0), made = Reshaper(dag, *with_last(t, d).op()).run(chain);
    if (!made) continue;
    rebuilder.replace(t, in_order_of(made, t, d));
    ++moved;
  }
  if (moved == 0) return dag.outputs();
  context.changed(std::to_string(moved) + " products are stored along what their readers go along");
  return rebuilder.rebuild(dag.outputs());
}

std::vector<Tensor> fold_views(const PassContext& context) { return fold(context, keeps_order); }

std::vector<Tensor> fold_short_transposes(const PassContext& context) {
  if (!context.target.is_cuda()) return context.dag.outputs();
  return fold(context, moves_short_dimensions);
}

}  // namespace heddle::network
