// What a training step is made of beside gradients: a loss, and the updates of parameters.
//
//   Tensor loss = ops::softmax_cross_entropy(logits, labels);
//   Tensor dw = gradient(loss, w);
//   ops::Momentum next = ops::sgd(w, dw, velocity, {.rate = 0.05, .momentum = 0.9});
//   Network step({loss}, Target::host(), {}, {}, {{w, next.parameter}, {velocity, next.velocity}});
//
// The operators declare results of their own, of the shapes of w and velocity. A Network whose updates
// name them writes them where the old ones lie. In a Kernel they are outputs: a step reads one set of
// arrays and writes another. Parameters and states have one shape and one type, which is that of the
// results.
#pragma once

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// The mean over the rows of log(sum(exp(x))) - x[label]: logits (N, C), labels (N) of integers in [0,
/// C) -> a tensor of rank 0. It is stable for logits of any size. A row whose label is out of
/// range adds nothing, but counts as a row. `smoothing` gives that share of the weight to all classes alike (Szegedy et al. 2016,
/// arXiv:1512.00567).
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing = 0,
                             Where where = Where::current());

/// Attributes of stochastic gradient descent, as in PyTorch.
struct Sgd {
  double rate = 0.01;
  double momentum = 0;
  double decay = 0;  ///< of the parameter, added to its gradient
  bool nesterov = false;
};
struct Momentum {
  Tensor parameter, velocity;
};
/// velocity' = momentum * velocity + gradient; parameter' = parameter - rate * velocity'. Velocities
/// begin at 0.
Momentum sgd(const Tensor& parameter, const Tensor& gradient, const Tensor& velocity,
             const Sgd& attributes = {}, Where where = Where::current());

/// Attributes of Adam (Kingma and Ba 2015, arXiv:1412.6980) with decoupled decay (Loshchilov and
/// Hutter 2019, arXiv:1711.05101).
struct Adam {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0;
};
struct Moments {
  Tensor parameter, mean, square;
};
/// One step of Adam. `step` (1) has the number of this step, from 1, and `rate` (1) the learning rate,
/// both of the type of the parameter; they are tensors, so that one kernel serves all steps. Means of
/// gradients and of their squares begin at 0. The type is f32 or f64; narrower ones are an error,
/// because they cannot hold the sums.
Moments adam(const Tensor& parameter, const Tensor& gradient, const Tensor& mean,
             const Tensor& square, const Tensor& step, const Tensor& rate,
             const Adam& attributes = {}, Where where = Where::current());

}  // namespace heddle::ops
