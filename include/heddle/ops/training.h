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

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/dsl/update.h"

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

/// Sets elements of `x`, a float tensor, to 0 with the probability `rate` in [0, 1), and divides the
/// others by 1 - rate (Srivastava et al. 2014). `seed` (1) is an integer, another one for each step;
/// `layer` tells the dropouts of a network apart. Whether an element stays depends on these and its
/// position alone, by the bits of ops/random.h, so that a gradient draws it again and no mask is kept.
Tensor dropout(const Tensor& x, double rate, const Tensor& seed, uint64_t layer = 0,
               Where where = Where::current());

/// Attributes of dynamic loss scaling, as in PyTorch's GradScaler.
struct LossScaling {
  double growth = 2;     ///< the scale is multiplied by it after `interval` steps without overflow
  double backoff = 0.5;  ///< and by this after a step with one
  int64_t interval = 2000;
};
/// `scale` and `good` (the steps since it changed) of the next step, and `finite` (1), an i32 that is 1
/// where all gradients of this step are finite, else 0.
struct LossScale {
  Tensor scale, good, finite;
};
/// The loss in f32, of any rank, times `scale` (1), of f32: what gradients are taken of.
Tensor scaled_loss(const Tensor& loss, const Tensor& scale, Where where = Where::current());
/// A gradient of a scaled loss in f32, divided by the scale.
Tensor unscaled(const Tensor& gradient, const Tensor& scale, Where where = Where::current());
/// What becomes of the scale: `gradients` are those of the scaled loss, floats of any types; `scale`
/// and `good` are (1), of f32, and begin at about 65536 and at 0. The scale stays at or above 1
/// (Micikevicius et al. 2018, arXiv:1710.03740).
LossScale loss_scale(const std::vector<Tensor>& gradients, const Tensor& scale, const Tensor& good,
                     const LossScaling& attributes = {}, Where where = Where::current());
/// Updates that leave each state as it is where `condition` (1), an integer, is 0.
std::vector<StateUpdate> updates_if(const Tensor& condition, std::vector<StateUpdate> updates,
                                    Where where = Where::current());

}  // namespace heddle::ops
