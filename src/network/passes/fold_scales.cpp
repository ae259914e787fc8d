// Folds batch norm into weights: factors and offsets of the results of a product or convolution
// with constant weights are multiplied into the weights and added as a bias.
//
//   p[k, y] = sum over c of x[c, y] * w[k, c]                                       (before)
//   n[k, y] = (p[k, y] + bias[k]) * factor[k] + offset[k]
//
//   v[k, c] = w[k, c] * factor[k]                              once                 (after)
//   b[k]    = bias[k] * factor[k] + offset[k]                  once
//   p[k, y] = sum over c of x[c, y] * v[k, c]
//   n[k, y] = p[k, y] + b[k]
#include <algorithm>
#include <optional>
#include <utility>

#include "dag/map_loads.h"
#include "dag/patterns/convolution.h"
#include "dag/rewrites/rebuilder.h"
#include "dag/rewrites/rewrite_parts.h"
#include "ir/linear.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"
#include "network/passes/product_chain.h"

namespace heddle::network {
namespace {

/// e == factor * value + offset, where neither factor nor offset reads `value`.
struct Scaled {
  Expr factor, offset;
};

bool reads(const Expr& e, const Buffer& buffer) {
  return any_below(e, [&](const Expr& x) {
    const Load* load = x.as<Load>();
    return load != nullptr && load->buffer == buffer;
  });
}

std::optional<Scaled> scaled(const Expr& e, const Buffer& value) {
  const Expr zero = make_const(e.dtype(), 0), one = make_const(e.dtype(), 1);
  if (!reads(e, value)) return Scaled{zero, e};
  if (e.as<Load>()) return Scaled{one, zero};
  const Binary* b = e.as<Binary>();
  if (b == nullptr) return std::nullopt;
  const bool left = reads(b->a, value), right = reads(b->b, value);
  if (left && right) return std::nullopt;
  const std::optional<Scaled> part = scaled(left ? b->a : b->b, value);
  if (!part) return std::nullopt;
  const Expr& other = left ? b->b : b->a;
  switch (b->op) {
    case BinaryOp::Add: return Scaled{part->factor, part->offset + other};
    case BinaryOp::Sub:
      if (left) return Scaled{part->factor, part->offset - other};
      return Scaled{zero - part->factor, other - part->offset};
    case BinaryOp::Mul: return Scaled{part->factor * other, part->offset * other};
    case BinaryOp::Div:
      if (left) return Scaled{part->factor / other, part->offset / other};
      return std::nullopt;
    default: return std::nullopt;
  }
}

class Folder {
 public:
  Folder(const ComputeDag& dag, std::vector<int> chain) : dag_(dag), chain_(std::move(chain)) {}

  /// The last stage of the chain with everything folded; null where that is not possible.
  Tensor run() {
    const Operation &product = dag_.stage(chain_.front()), &last = dag_.stage(chain_.back());
    const DataType type = last.output(0).dtype();
    if (!type.is_float() || type.bits < 32) return {};
    if (!find_weight()) return {};
    std::optional<Scaled> s = scaled(whole_body(), product.output_buffer(0));
    if (!s || is_const(s->factor, 1) || !constant_only(s->factor) || !constant_only(s->offset))
      return {};
    for (size_t d = 0; d < last.axes().size(); ++d) {
      if (!uses_var(s->factor, last.axes()[d].var())) continue;
      if (dag::plain_dimension(*weight_, product.axes()[d]) < 0) return {};
    }
    return folded(*s);
  }

 private:
  /// Finds the constant operand of the product, which must have the type of the results.
  bool find_weight() {
    const Access* operands[2];
    if (!dag::match_contraction(dag_, chain_.front(), operands).empty()) return false;
    weight_ = dag::is_constant_operand(dag_, *operands[0]) ? operands[0] : operands[1];
    if (!dag::is_constant_operand(dag_, *weight_)) return false;
    const DataType type = dag_.stage(chain_.back()).output(0).dtype();
    return weight_->tensor.dtype() == type && dag_.stage(chain_.front()).output(0).dtype() == type;
  }

  /// The body of the last stage in terms of the product, over the stage's own axes.
  Expr whole_body() const {
    Expr body = dag_.stage(chain_.back()).bodies()[0];
    const std::vector<Axis>& axes = dag_.stage(chain_.back()).axes();
    for (size_t i = chain_.size() - 1; i-- > 1;) {
      const Operation& inner = dag_.stage(chain_[i]);
      std::vector<VarBinding> to;
      for (size_t d = 0; d < axes.size(); ++d) to.push_back({inner.axes()[d].var(), axes[d]});
      const Expr own = substitute(inner.bodies()[0], to);
      body = dag::map_loads({body}, [&](const Load& load) {
               return load.buffer == inner.output_buffer(0) ? own
                                                            : make_load(load.buffer, load.indices);
             }).front();
    }
    return body;
  }

  bool constant_only(const Expr& e) const {
    return !any_below(e, [&](const Expr& x) {
      const Load* load = x.as<Load>();
      if (load == nullptr) return false;
      return !dag::is_constant_stage(dag_, dag_.index_of(tensor_of(load->buffer).op()));
    });
  }

  /// The weights times the factor. Each weight is multiplied by the factor of the results that it
  /// contributes to.
  Tensor scaled_weight(const Expr& factor) const {
    const Operation &product = dag_.stage(chain_.front()), &last = dag_.stage(chain_.back());
    return compute(
        weight_->tensor.shape(),
        [&](const std::vector<Axis>& i) {
          std::vector<VarBinding> to;
          for (size_t d = 0; d < last.axes().size(); ++d) {
            const int at = dag::plain_dimension(*weight_, product.axes()[d]);
            if (at >= 0) to.push_back({last.axes()[d].var(), i[static_cast<size_t>(at)]});
          }
          return weight_->tensor(i) * substitute(factor, to);
        },
        weight_->tensor.name() + "_scaled", "scaled", product.where());
  }

  /// The offset as a constant of its own, where it takes arithmetic.
  Expr prepared(const Expr& offset) const {
    if (offset.as<Load>() || !has_load(offset)) return offset;
    const Operation& last = dag_.stage(chain_.back());
    UsedAxes used(last, offset);
    return Operation::make_compute(last.name() + "_offset", std::move(used.axes),
                                   {substitute(offset, used.bindings)}, "scaled", last.where())
        ->output(0)
        .at(std::move(used.indices));
  }

  Tensor folded(const Scaled& s) {
    const Operation &product = dag_.stage(chain_.front()), &last = dag_.stage(chain_.back());
    weights_ = scaled_weight(s.factor);
    const FreshAxes fresh(product);
    std::vector<Expr> bodies = dag::map_loads(product.bodies(), [&](const Load& load) {
      return make_load(load.buffer == weight_->buffer ? weights_.buffer() : load.buffer,
                       load.indices);
    });
    bodies[0] = substitute(bodies[0], fresh.bindings);
    const Tensor sums = Operation::make_compute(product.name(), fresh.axes, std::move(bodies),
                                                product.tag(), product.where())
                            ->output(0);
    Expr value = sums(last.axes());
    if (!is_const(s.offset, 0)) value = value + prepared(s.offset);
    return Operation::make_compute(last.name(), last.axes(), {std::move(value)}, last.tag(),
                                   last.where())
        ->output(0);
  }

  const ComputeDag& dag_;
  const std::vector<int> chain_;
  const Access* weight_ = nullptr;
  Tensor weights_;
};

}  // namespace

std::vector<Tensor> fold_scales(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  std::vector<char> taken(static_cast<size_t>(dag.size()));
  int folded = 0;
  // The search begins at the end, so that the longest chain is folded.
  for (int s = dag.size() - 1; s >= 0; --s) {
    std::vector<int> chain;
    if (dag.stage(s).is_placeholder() || dag.info(s).precomputable) continue;
    for (const int p : dag.info(s).producers) {
      if (chain.empty() && follows(dag, s, p)) chain = chain_to(dag, p);
    }
    if (chain.empty()) continue;
    chain.push_back(s);
    if (std::any_of(chain.begin(), chain.end(), [&](int x) { return taken[x] != 0; })) continue;
    const Tensor made = Folder(dag, chain).run();
    if (!made) continue;
    for (const int x : chain) taken[static_cast<size_t>(x)] = 1;
    rebuilder.replace(dag.stage(s).output(0), made);
    ++folded;
  }
  if (folded == 0) return dag.outputs();
  context.changed("what multiplies the results of " + std::to_string(folded) +
                  " products is part of their weights");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
