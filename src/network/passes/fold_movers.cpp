// Cancels transposes: a stage reads what a mover (mover.h) reads, at the mover's indices, where its
// own indices stay as simple as they were.
//
//   t[i, j] = x[j, i];  u[i, j] = t[j, i] + 1                                       (before)
//   u[i, j] = x[i, j] + 1                                                           (after)
//
//   heads[b, s, h, d] = y[b, s, h * 64 + d];  q[b, h, s, d] = heads[b, s, h, d]     (before)
//   q[b, h, s, d] = y[b, s, h * 64 + d]                                             (after)
//
// A product keeps a mover whose indices are sums, because packing its operand includes the mover. A
// mover of a constant stays too, because it is prepared once.
//
// At the end a result that is a copy, at the same places, of what other stages read too is that itself.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "dag/map_loads.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// Whether `op` depends on constants only. `known` caches answers.
bool constant_only(const Operation& op, std::unordered_map<const Operation*, bool>& known) {
  if (op.is_placeholder()) return op.is_constant();
  if (const auto it = known.find(&op); it != known.end()) return it->second;
  bool only = true;
  for (const Tensor& t : op.inputs()) only = only && constant_only(*t.op(), known);
  return known[&op] = only;
}

/// Writes index 0 of a dimension of one element as the reader's axis of one element at the same
/// place. Equal layers then have equal text, however they were shaped.
void name_single_elements(const Operation& reader, const Tensor& from, std::vector<Expr>& at) {
  for (size_t d = 0; d < at.size() && d < reader.axes().size(); ++d) {
    const Axis& axis = reader.axes()[d];
    if (from.extent(static_cast<int>(d)) == 1 && axis.extent() == 1 && as_int(at[d])) at[d] = axis;
  }
}

/// With `movers_only`, reads of other stages stay.
std::vector<Tensor> fold(const PassContext& context, bool movers_only) {
  const ComputeDag& dag = context.dag;
  int changed = 0;
  std::unordered_map<const Operation*, bool> known;
  std::vector<Tensor> outputs = map_graph(
      dag,
      [&](int s, const std::vector<Expr>& bodies) {
        const Operation& reader = dag.stage(s);
        const Ranges ranges = ranges_of(reader);
        const bool is_mover = moved_read(reader) != nullptr;
        if (movers_only && !is_mover) return bodies;
        return dag::map_loads(bodies, [&](const Load& load) {
          const Operation& mover = *tensor_of(load.buffer).op();
          const Load* source = moved_read(mover);
          const Expr same = make_load(load.buffer, load.indices);
          if (source == nullptr) return same;
          const Tensor from = tensor_of(source->buffer);
          if (!is_mover && constant_only(mover, known)) return same;
          std::vector<Expr> at = read_through(mover, load.indices, ranges);
          const bool as_simple = composed_indices(at) <= composed_indices(load.indices);
          const bool free = !reader.is_reduction() && !any_division(at);
          if (!is_mover && !as_simple && !free) return same;
          name_single_elements(reader, from, at);
          return make_load(source->buffer, std::move(at));
        });
      },
      &changed);
  if (changed == 0) return dag.outputs();
  context.changed(std::to_string(changed) +
                  " stages read through transposes, slices and changes of shape");
  return outputs;
}

/// The tensor that `op` has all elements of, in the same shape and at the same places; null where there
/// is none.
const Load* copied(const Operation& op) {
  const Load* source = moved_read(op);
  if (source == nullptr || op.num_outputs() != 1) return nullptr;
  const Tensor from = tensor_of(source->buffer);
  const bool as_it_lies =
      std::ranges::equal(source->indices, op.axes(),
                         [](const Expr& at, const Axis& a) { return at.get() == a.var().get(); }) &&
      std::ranges::equal(from.shape(), op.output(0).shape(),
                         [](const Expr& a, const Expr& b) { return equal(a, b); });
  return as_it_lies && from.dtype() == op.output(0).dtype() ? source : nullptr;
}

}  // namespace

std::vector<Tensor> drop_copies(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  std::vector<Tensor> outputs = dag.outputs();
  std::set<const Operation*> written;
  for (const Tensor& t : outputs) written.insert(t.op());
  int changed = 0;
  for (Tensor& t : outputs) {
    const Load* source = copied(*t.op());
    if (source == nullptr) continue;
    const Tensor from = tensor_of(source->buffer);
    const StageInfo& info = dag.info(dag.index_of(from.op()));
    const bool own = !from.op()->is_placeholder() && from.op()->num_outputs() == 1 &&
                     !info.precomputable && info.consumers.size() > 1;
    if (!own || !written.insert(from.op()).second) continue;
    t = from;
    ++changed;
  }
  if (changed > 0)
    context.changed(std::to_string(changed) + " results are what they were copies of");
  return outputs;
}

std::vector<Tensor> fold_movers(const PassContext& context) { return fold(context, false); }

std::vector<Tensor> join_movers(const PassContext& context) { return fold(context, true); }

}  // namespace heddle::network
