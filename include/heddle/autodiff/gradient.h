// Gradients of declarations. They are declarations, too: scheduled, tuned and run like any other.
//
//   Tensor x = placeholder({64, 784}, f32, "x"), w = placeholder({10, 784}, f32, "w");
//   Tensor loss = ops::mean(ops::square(ops::dense(x, w)), {0, 1});
//   Tensor dw = gradient(loss, w);               // a matrix product, of the shape of w
//
// A stage is differentiated by what it computes and not by its name. What reads a tensor at affine
// indices gives a gradient that reads at affine indices: the gradients of convolutions are
// convolutions, those of matrix products are matrix products. A gather gives a sum over all of its
// points in their order, so that results never depend on threads. Gradients may be differentiated
// again.
//
// Where a function has no derivative, the gradient is PyTorch's: 0 for abs, relu and relu6 at their
// corners, one half for each of two equal operands of maximum, all to the first of equal elements of
// a max reduction. A clip is 0 at its corners too, where torch.clamp passes the gradient on.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// What the gradient with respect to a tensor is that the outputs do not depend on.
enum class Unconnected : uint8_t {
  Refuse,  ///< a User error
  Zero,    ///< a tensor of zeros
};

/// A gradient that the program declares. What `output` receives is given to `rule`, which returns for
/// each of `inputs` what it receives in turn: a tensor of its shape and type, or a null one for
/// nothing. What `output` computes is not differentiated. An input must not depend on the output.
struct CustomGradient {
  Tensor output;
  std::vector<Tensor> inputs;
  std::function<std::vector<Tensor>(const Tensor& head)> rule;
};

/// The derivative of a reducer that the program declares. `element` has the components of one element,
/// `result` those of the result, and `head` what each of these receives, 0 for all but one of them. The
/// rule returns what each component of the element receives: for log(exp(a) + exp(b)),
///
///   {reducer, [](auto& element, auto& result, auto& head) {
///      return std::vector<Expr>{head[0] * exp(element[0] - result[0])};
///    }}
struct ReducerDerivative {
  Reducer reducer;
  std::function<std::vector<Expr>(const std::vector<Expr>& element, const std::vector<Expr>& result,
                                  const std::vector<Expr>& head)>
      rule;
};

/// The ways that gradients take.
struct GradientOptions {
  Unconnected unconnected = Unconnected::Refuse;
  std::vector<Tensor> stop = {};  ///< inputs and stages that count as constants
  std::vector<CustomGradient> custom = {};
  std::vector<ReducerDerivative> reducers = {};
};

/// The gradients of `outputs` with respect to `wrt`, which may be inputs or stages: for each, the sum
/// over all elements of all outputs of their derivative times the element of the head. `heads` has a
/// tensor of the shape and type of each output; without heads every output must have one element, and
/// its head is 1. Each result has the shape and the type of its `wrt`. Throws a User error for tensors
/// of integers, heads that do not fit, a reducer without derivative on the way, and a tensor of `wrt`
/// that no output depends on.
std::vector<Tensor> gradient(const std::vector<Tensor>& outputs, const std::vector<Tensor>& wrt,
                             const std::vector<Tensor>& heads = {},
                             const GradientOptions& options = {}, Where where = Where::current());
/// The gradient of one output of one element with respect to one tensor.
Tensor gradient(const Tensor& output, const Tensor& wrt, Where where = Where::current());

}  // namespace heddle
