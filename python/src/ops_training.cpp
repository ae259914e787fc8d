// What a training step is made of beside gradients.
#include "bind.h"

namespace heddle::python {
namespace {

using Pairs = std::vector<std::pair<Tensor, Tensor>>;

void bind_optimisers(nb::module_& m) {
  m.def(
      "sgd",
      [](const Tensor& parameter, const Tensor& gradient, const Tensor& velocity, double rate,
         double momentum, double decay, bool nesterov) {
        const ops::Momentum next =
            ops::sgd(parameter, gradient, velocity, {rate, momentum, decay, nesterov}, caller());
        return std::pair(next.parameter, next.velocity);
      },
      "parameter"_a, "gradient"_a, "velocity"_a, "rate"_a = 0.01, "momentum"_a = 0.0,
      "decay"_a = 0.0, "nesterov"_a = false,
      "The parameter and velocity after a step of torch.optim.SGD. Velocities begin at 0.");
  m.def(
      "adam",
      [](const Tensor& parameter, const Tensor& gradient, const Tensor& mean, const Tensor& square,
         const Tensor& step, const Tensor& rate, double beta1, double beta2, double epsilon,
         double decay) {
        const ops::Moments next = ops::adam(parameter, gradient, mean, square, step, rate,
                                            {beta1, beta2, epsilon, decay}, caller());
        return std::vector<Tensor>{next.parameter, next.mean, next.square};
      },
      "parameter"_a, "gradient"_a, "mean"_a, "square"_a, "step"_a, "rate"_a, "beta1"_a = 0.9,
      "beta2"_a = 0.999, "epsilon"_a = 1e-8, "decay"_a = 0.0,
      "The parameter, mean and mean of squares after a step of torch.optim.AdamW. `step` (1) is "
      "its "
      "number from 1, `rate` (1) the learning rate, both of the type of the parameter.");
}

void bind_loss_scale(nb::module_& m) {
  m.def(
      "scaled_loss",
      [](const Tensor& loss, const Tensor& scale) {
        return ops::scaled_loss(loss, scale, caller());
      },
      "loss"_a, "scale"_a, "The loss in f32 times `scale` (1), of f32.");
  m.def(
      "unscaled",
      [](const Tensor& gradient, const Tensor& scale) {
        return ops::unscaled(gradient, scale, caller());
      },
      "gradient"_a, "scale"_a, "A gradient of a scaled loss, in f32, divided by the scale.");
  m.def(
      "loss_scale",
      [](const std::vector<Tensor>& gradients, const Tensor& scale, const Tensor& good,
         double growth, double backoff, int64_t interval) {
        const ops::LossScale next =
            ops::loss_scale(gradients, scale, good, {growth, backoff, interval}, caller());
        return std::vector<Tensor>{next.scale, next.good, next.finite};
      },
      "gradients"_a, "scale"_a, "good"_a, "growth"_a = 2.0, "backoff"_a = 0.5, "interval"_a = 2000,
      "The scale of the next step, the steps since it changed, and whether all gradients of this "
      "step are "
      "finite: dynamic loss scaling, as torch.amp.GradScaler. `scale` and `good` are (1), of f32.");
  m.def(
      "updates_if",
      [](const Tensor& condition, const Pairs& updates) {
        std::vector<StateUpdate> list;
        for (const auto& [state, next] : updates) list.push_back({state, next});
        Pairs made;
        for (const StateUpdate& u : ops::updates_if(condition, std::move(list), caller()))
          made.emplace_back(u.state, u.next);
        return made;
      },
      "condition"_a, "updates"_a,
      "Pairs of a state and its next value that leave each state as it is where `condition` (1), "
      "an "
      "integer, is 0.");
}

}  // namespace

void bind_training(nb::module_& ops) {
  bind_optimisers(ops);
  bind_loss_scale(ops);
  ops.def(
      "dropout",
      [](const Tensor& x, double rate, const Tensor& seed, uint64_t layer) {
        return ops::dropout(x, rate, seed, layer, caller());
      },
      "x"_a, "rate"_a, "seed"_a, "layer"_a = 0,
      "Sets elements to 0 with the probability `rate`, and divides the others by 1 - rate. `seed` "
      "(1) is an "
      "integer, another one for each step; `layer` tells the dropouts of a network apart.");
}

}  // namespace heddle::python
