// Losses of classification.
#include "heddle/ops/elementwise.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/reduce.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

/// The negative share of the label's class, x (N, C, ...) at labels (N, ...), times the weight of that class.
Value loss_of(const NodeScope& s, const Tensor& x) {
  const Tensor labels = s.tensor(1), weights = s.optional_tensor(2);
  Extents wanted = x.extents();
  if (x.rank() < 2) s.fail("its input " + shape_text(wanted) + " is not (N, C, ...)");
  const int64_t classes = wanted[1];
  wanted.erase(wanted.begin() + 1);
  if (labels.extents() != wanted || !labels.dtype().is_integral() ||
      (weights && weights.extents() != Extents{classes}))
    s.fail("its labels " + shape_text(labels.extents()) + " do not fit " + shape_text(x.extents()));
  const int64_t ignored = s.integer("ignore_index", -1);
  const bool ignores = s.has_attribute("ignore_index");
  const DataType type = x.dtype(), wide = type.is_small_float() ? f32 : type;
  const Expr none = make_const(wide, 0);
  const auto label = [&](const std::vector<Axis>& i) { return cast(i64, labels(i)); };
  const auto weight = [&](const std::vector<Axis>& i) {
    const Expr at = heddle::max(heddle::min(label(i), Expr(classes - 1)), Expr(0));
    const Expr own = weights ? cast(wide, weights(at)) : make_const(wide, 1);
    return ignores ? select(label(i) == ignored, none, own) : own;
  };
  const Tensor each = compute(
      labels.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(i.begin(), i.end());
        at.insert(at.begin() + 1, heddle::max(heddle::min(label(i), Expr(classes - 1)), Expr(0)));
        const Expr value = -cast(wide, x.at(std::move(at))) * weight(i);
        return ignores ? select(label(i) == ignored, none, value) : value;
      },
      "loss_each", "loss", s.at());
  const std::string reduction = s.text("reduction", "mean");
  if (reduction == "none") return ops::cast(each, type, s.at());
  const Tensor total = ops::sum(each, {}, false, s.at());
  if (reduction == "sum") return ops::cast(total, type, s.at());
  if (reduction != "mean") s.fail("attribute 'reduction' is '" + reduction + "'");
  const Tensor share = compute(
      labels.shape(), [&](const std::vector<Axis>& i) { return weight(i); }, "loss_weights", "loss",
      s.at());
  return ops::cast(ops::div(total, ops::sum(share, {}, false, s.at()), s.at()), type, s.at());
}

std::vector<Value> likelihood_loss(const NodeScope& s) { return {loss_of(s, s.tensor(0))}; }

std::vector<Value> cross_entropy_loss(const NodeScope& s) {
  if (s.rank(0) < 2) s.fail("its input " + shape_text(s.shape(0)) + " is not (N, C, ...)");
  const Tensor shares = ops::log_softmax(s.tensor(0), 1, s.at());
  return {loss_of(s, shares), shares};
}

}  // namespace

std::vector<OperatorEntry> loss_operators() {
  return {{"NegativeLogLikelihoodLoss", likelihood_loss},
          {"SoftmaxCrossEntropyLoss", cross_entropy_loss}};
}

}  // namespace heddle::onnx
