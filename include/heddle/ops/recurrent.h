// Recurrent layers of one direction. They are unrolled: each step is a declaration of its own, and steps
// of one shape share one kernel. Or they are turns of a loop, of which a step is declared once.
//
//   ops::RecurrentResult r = ops::lstm(x, {w, recurrence, bias});
//
//   Recurrence loop("lstm", x.shape()[0]);
//   ops::RecurrentResult all = ops::lstm(x, {w, recurrence, bias}, {.loop = &loop});
//   Network net({ops::relu(all.all)}, Target::host(), {}, {}, Updates({}, {loop.repeat()}));
//
// x is (T, N, I): T steps of N sequences. States are (N, H). Weights and the order of the gates are
// those of ONNX. Types: f32 and f64.
#pragma once

#include <functional>
#include <vector>

#include "heddle/dsl/repeat.h"
#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// A function of one element, such as a sigmoid.
using Activation = std::function<Expr(const Expr&)>;

/// The weights of a layer with input size I, hidden size H and G gates (lstm: 4, gru: 3, rnn: 1). N
/// is the batch.
struct RecurrentWeights {
  Tensor input;           ///< (G * H, I), with G gates
  Tensor recurrence;      ///< (G * H, H)
  Tensor bias = {};       ///< (2 * G * H), bias of the input and then of the recurrence; or none
  Tensor state = {};      ///< (N, H), the first hidden state; none: zeros
  Tensor cell = {};       ///< lstm: (N, H), the first cell state; none: zeros
  Tensor peepholes = {};  ///< lstm: (3 * H), for the gates i, o, f; or none
  /// (N), integers: the steps of each sequence, which is the first of the T. Steps behind them leave the
  /// states as they are, and their results are 0. None: T steps.
  Tensor lengths = {};
  /// The products of (T, N, I) with `input` and of (N, H) with `recurrence`, as of quantised weights.
  /// None: those of matrices. A gru whose reset gate applies before the product takes no `of_state`.
  std::function<Tensor(const Tensor&)> of_input = {}, of_state = {};
};

/// Attributes as in ONNX.
struct RecurrentAttributes {
  bool reverse = false;              ///< from the last step to the first
  bool linear_before_reset = false;  ///< gru: the reset gate applies after the product
  bool input_forget = false;         ///< lstm: f = 1 - i
  double clip = 0;                   ///< limit of the inputs of the activations; 0: none
  /// The activation functions. lstm: f, g, h (default sigmoid, tanh, tanh); gru: f, g (sigmoid,
  /// tanh); rnn: f (tanh).
  std::vector<Activation> activations = {};
  /// The steps are turns of this loop, which has as many turns. Null: they are unrolled.
  Recurrence* loop = nullptr;
};

/// The results of a layer for T steps of a batch of N.
struct RecurrentResult {
  Tensor all;    ///< (T, N, H), the hidden states in the order of x
  Tensor state;  ///< (N, H), the last hidden state
  Tensor cell;   ///< lstm: (N, H)
};

/// A long short-term memory layer (Hochreiter and Schmidhuber 1997). The gates are in the order i,
/// o, f, c.
RecurrentResult lstm(const Tensor& x, const RecurrentWeights& weights,
                     const RecurrentAttributes& attributes = {}, Where where = Where::current());
/// A gated recurrent unit (Cho et al. 2014, arXiv:1406.1078). The gates are in the order z, r, h.
RecurrentResult gru(const Tensor& x, const RecurrentWeights& weights,
                    const RecurrentAttributes& attributes = {}, Where where = Where::current());
/// A plain recurrent layer: state = f(W x + R state + b) (Elman 1990).
RecurrentResult rnn(const Tensor& x, const RecurrentWeights& weights,
                    const RecurrentAttributes& attributes = {}, Where where = Where::current());

}  // namespace heddle::ops
