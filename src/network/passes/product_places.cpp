#include "network/passes/product_places.h"

#include <algorithm>
#include <map>

#include "dag/patterns/look_through.h"
#include "dag/rewrites/rewrite_parts.h"
#include "ir/linear.h"
#include "network/passes/quantised.h"

namespace heddle::network {
namespace {

bool uses_any(const Expr& e, const std::vector<Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return uses_var(e, a.var()); });
}

/// The read of floats that a factor is, which is widened to f32 where they are narrower; else null.
const Load* plain_read(const Expr& e) {
  const Load* load = narrow_or_wide(e).as<Load>();
  return load && load->dtype.is_float() && e.dtype() == f32 && tensor_of(load->buffer) &&
                 std::none_of(load->indices.begin(), load->indices.end(), has_load)
             ? load
             : nullptr;
}

std::optional<ProductPlace> product_at(const ComputeDag& dag, int s, bool at_other_sizes) {
  const StageInfo& info = dag.info(s);
  if (info.stage_class != StageClass::ComplexReduction && !at_other_sizes) return std::nullopt;
  if (info.scan || info.precomputable) return std::nullopt;
  const Operation& op = dag.stage(s);
  const Reduce* r = dag::reduction_of(op, ReduceKind::Sum, 0);
  const Binary* mul = r ? r->sources[0].as<Binary>() : nullptr;
  if (!mul || mul->op != BinaryOp::Mul || !plain_read(mul->a) || !plain_read(mul->b))
    return std::nullopt;
  ProductPlace found;
  found.stage = s;
  found.operands[0] = plain_read(mul->a);
  found.operands[1] = plain_read(mul->b);
  for (const int i : {0, 1}) {
    const Load& load = *found.operands[i];
    const int from = dag.index_of(tensor_of(load.buffer).op());
    if (found.weights < 0 && dag::is_constant_stage(dag, from) &&
        !channel_dimensions(op, load).empty())
      found.weights = i;
  }
  return found;
}

}  // namespace

std::vector<ProductPlace> product_places(const ComputeDag& dag, const StageTypes& also) {
  std::vector<ProductPlace> places;
  std::map<std::string, int> counts;
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.stage(s).is_placeholder()) continue;
    std::optional<ProductPlace> found = product_at(dag, s, also.contains(s));
    if (!found) continue;
    const std::string shape = place_of(dag.stage(s));
    found->place = shape + "#" + std::to_string(++counts[shape]);
    places.push_back(std::move(*found));
  }
  return places;
}

bool may_be(const ProductPlace& product, DataType type) {
  return type.bits > 8 || product.weights >= 0;
}

const Load* moved_or_padded_read(const ComputeDag& dag, const Tensor& t) {
  const int s = dag.index_of(t.op());
  if (s < 0 || dag.stage(s).is_placeholder() || dag.info(s).scan || dag.info(s).precomputable)
    return nullptr;
  const Operation& op = dag.stage(s);
  if (const Load* moved = moved_read(op)) return moved;
  const Select* pad = op.num_outputs() == 1 ? op.bodies()[0].as<Select>() : nullptr;
  if (!pad || !is_const(pad->on_false, 0) || has_load(pad->condition)) return nullptr;
  const Load* load = pad->on_true.as<Load>();
  return load && std::none_of(load->indices.begin(), load->indices.end(), has_load) ? load
                                                                                    : nullptr;
}

Tensor source_of(const ComputeDag& dag, Tensor t) {
  while (const Load* read = moved_or_padded_read(dag, t)) t = tensor_of(read->buffer);
  return t;
}

std::vector<size_t> channel_dimensions(const Operation& product, const Load& weight) {
  std::vector<size_t> channels;
  for (size_t d = 0; d < weight.indices.size(); ++d) {
    const Expr& at = weight.indices[d];
    if (uses_any(at, product.axes()) && !uses_any(at, product.reduce_axes())) channels.push_back(d);
  }
  return channels;
}

}  // namespace heddle::network
