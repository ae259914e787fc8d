#include "heddle/ops/recurrent.h"

#include <utility>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/transform.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;

// The part that the steps of all three layers share.
class Layer {
 public:
  Layer(const Call& call, const Tensor& x, const RecurrentWeights& w,
        const RecurrentAttributes& attributes, int gates)
      : call_(call), w_(w), attributes_(attributes), gates_(gates) {
    impl::check_rank(call, x, "x", 3, 3);
    impl::check_float(call, x, "x");
    impl::check_rank(call, w.input, "input", 2, 2);
    impl::check_rank(call, w.recurrence, "recurrence", 2, 2);
    steps_ = x.extent(0);
    batch_ = x.extent(1);
    hidden_ = w.recurrence.extent(1);
    check_shape(w.input, "input", {gates * hidden_, x.extent(2)});
    check_shape(w.recurrence, "recurrence", {gates * hidden_, hidden_});
    check_shape(w.bias, "bias", {2 * gates * hidden_});
    check_shape(w.state, "state", {batch_, hidden_});
    check_shape(w.cell, "cell", {batch_, hidden_});
    check_shape(w.peepholes, "peepholes", {3 * hidden_});
    check_shape(w.lengths, "lengths", {batch_});
    // The products of the weights with the inputs of all steps are one product.
    from_input_ = w.of_input ? w.of_input(x) : matmul(x, w.input, false, true, {}, call.where);
    dtype_ = from_input_.dtype();
    if (attributes.loop) begin_turns();
  }

  int64_t hidden() const { return hidden_; }
  /// The state before the first step, or before each turn.
  Tensor first(const Tensor& given) const {
    const Tensor first = given ? given : full({batch_, hidden_}, 0, dtype_, call_.where);
    return attributes_.loop ? attributes_.loop->state(first) : first;
  }
  Tensor product(const Tensor& state) const {
    return w_.of_state ? w_.of_state(state)
                       : matmul(state, w_.recurrence, false, true, {}, call_.where);
  }
  // The part of gate `g` that comes from the input and the biases: `input_bias` alone, or both
  // biases.
  Expr given(int64_t step, const std::vector<Axis>& i, int g, bool both = true) const {
    const Expr j = i[1] + g * hidden_;
    const Expr value =
        attributes_.loop ? row_(i[0], j) : biased(from_input_(Expr(step), i[0], j), j);
    return both && w_.bias ? value + recurrent_bias(i, g) : value;
  }
  Expr recurrent_bias(const std::vector<Axis>& i, int g) const {
    if (!w_.bias) return make_const(dtype_, 0);
    return w_.bias(i[1] + (gates_ + g) * hidden_);
  }
  Expr part(const Tensor& product, const std::vector<Axis>& i, int g) const {
    return product(i[0], i[1] + g * hidden_);
  }
  Expr activated(size_t which, const Expr& value) const {
    Expr v = value;
    if (attributes_.clip > 0) {
      v = max(min(v, make_const(dtype_, attributes_.clip)), make_const(dtype_, -attributes_.clip));
    }
    if (which < attributes_.activations.size()) return attributes_.activations[which](v);
    const bool gate = which == 0 && gates_ > 1;
    const Expr one = make_const(dtype_, 1);
    return gate ? one / (one + exp(-v)) : tanh(v);
  }
  template <class F>
  Tensor stage(const char* name, F f) const {
    return compute({batch_, hidden_}, f, name, call_.op, call_.where);
  }
  template <class F>
  std::vector<Tensor> stages(const char* name, F f) const {
    return compute_all({batch_, hidden_}, f, name, call_.op, call_.where);
  }
  // A state after step `t`: that before it where the sequence has ended.
  Expr kept(int64_t t, const std::vector<Axis>& i, const Expr& next, const Expr& before) const {
    return w_.lengths ? select(goes_on(t, i), next, before) : next;
  }
  // Runs `step(t)` for each step. It takes the states after the step before it, the hidden one first, and
  // returns those after step t.
  template <class F>
  RecurrentResult run(std::vector<Tensor> states, F step) const {
    if (attributes_.loop) return turns(states, step(0, states));
    std::vector<Tensor> rows(static_cast<size_t>(steps_));
    for (int64_t n = 0; n < steps_; ++n) {
      const int64_t t = attributes_.reverse ? steps_ - 1 - n : n;
      states = step(t, states);
      rows[static_cast<size_t>(t)] = row_of(t, states[0]);
    }
    return {stack(rows, 0, call_.where), states[0], states.size() > 1 ? states[1] : Tensor()};
  }

 private:
  // What is read in each turn.
  void begin_turns() {
    Recurrence& loop = *attributes_.loop;
    const Tensor all =
        w_.bias ? compute(
                      from_input_.shape(),
                      [&](Axis t, Axis n, Axis j) { return biased(from_input_(t, n, j), j); },
                      "recurrent_input", call_.op, call_.where)
                : from_input_;
    row_ = loop.row(all, attributes_.reverse);
    if (!w_.lengths) return;
    const Tensor numbers = compute(
        {steps_}, [&](Axis t) { return cast(w_.lengths.dtype(), Expr(t)); }, "steps", call_.op,
        call_.where);
    number_ = loop.row(numbers, attributes_.reverse);
  }
  // The results of the loop, a turn of which takes `before` to `after`.
  RecurrentResult turns(const std::vector<Tensor>& before, const std::vector<Tensor>& after) const {
    Recurrence& loop = *attributes_.loop;
    for (size_t s = 0; s < before.size(); ++s) loop.next(before[s], after[s]);
    RecurrentResult result{loop.all(row_of(0, after[0]), attributes_.reverse), {}, {}};
    result.state = loop.last(before[0]);
    if (before.size() > 1) result.cell = loop.last(before[1]);
    return result;
  }
  Expr goes_on(int64_t t, const std::vector<Axis>& i) const {
    const Expr number =
        attributes_.loop ? number_.at({}) : make_const(w_.lengths.dtype(), static_cast<double>(t));
    return number < w_.lengths(i[0]);
  }
  // The result of step `t`.
  Tensor row_of(int64_t t, const Tensor& state) const {
    if (!w_.lengths) return state;
    return stage("row", [&](const std::vector<Axis>& i) {
      return select(goes_on(t, i), state(i), make_const(dtype_, 0));
    });
  }
  Expr biased(const Expr& value, const Expr& j) const {
    return w_.bias ? value + w_.bias(j) : value;
  }
  void check_shape(const Tensor& t, const char* what, const impl::Dims& wanted) const {
    if (t && t.extents() != wanted)
      impl::fail(call_, "argument '" + std::string(what) + "' is " + impl::describe(t) +
                            ", and must have the shape " + impl::text(wanted));
  }

  Call call_;
  const RecurrentWeights& w_;
  const RecurrentAttributes& attributes_;
  int gates_;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0;
  Tensor from_input_;
  Tensor row_,
      number_;  ///< of a loop: the row of `from_input_` with its bias, and the number of the step
  DataType dtype_;
};

}  // namespace

RecurrentResult lstm(const Tensor& x, const RecurrentWeights& w,
                     const RecurrentAttributes& attributes, Where where) {
  constexpr int kI = 0, kO = 1, kF = 2, kC = 3;
  const Layer layer({"lstm", where}, x, w, attributes, 4);
  const auto peep = [&](Expr value, const std::vector<Axis>& i, int gate, const Expr& cell) {
    return w.peepholes ? value + w.peepholes(i[1] + gate * layer.hidden()) * cell : value;
  };
  using States = std::vector<Tensor>;
  return layer.run({layer.first(w.state), layer.first(w.cell)}, [&](int64_t t, const States& now) {
    const Tensor product = layer.product(now[0]), before = now[1];
    const auto gate = [&](const std::vector<Axis>& i, int g) {
      return layer.given(t, i, g) + layer.part(product, i, g);
    };
    // One stage has both states: in two, the cell state would be computed twice or be read back.
    return layer.stages("lstm", [&](const std::vector<Axis>& i) {
      const Expr in = layer.activated(0, peep(gate(i, kI), i, kI, before(i)));
      const Expr forget = attributes.input_forget
                              ? make_const(in.dtype(), 1) - in
                              : layer.activated(0, peep(gate(i, kF), i, kF, before(i)));
      const Expr cell = forget * before(i) + in * layer.activated(1, gate(i, kC));
      const Expr out = layer.activated(0, peep(gate(i, kO), i, kO, cell));
      return std::vector<Expr>{layer.kept(t, i, out * layer.activated(2, cell), now[0](i)),
                               layer.kept(t, i, cell, before(i))};
    });
  });
}

RecurrentResult gru(const Tensor& x, const RecurrentWeights& w,
                    const RecurrentAttributes& attributes, Where where) {
  constexpr int kZ = 0, kR = 1, kH = 2;
  const Call call{"gru", where};
  const Layer layer(call, x, w, attributes, 3);
  if (w.of_state && !attributes.linear_before_reset)
    impl::fail(call, "argument 'of_state' needs the attribute linear_before_reset");
  // The weights of the candidate state, which multiply the reset state.
  const int64_t size = layer.hidden();
  const Tensor candidate =
      attributes.linear_before_reset
          ? Tensor()
          : slice(w.recurrence, {kH * size}, {(kH + 1) * size}, {0}, {}, where);
  return layer.run({layer.first(w.state)}, [&](int64_t t, const std::vector<Tensor>& now) {
    const Tensor before = now[0], product = layer.product(before);
    const auto gate = [&](const std::vector<Axis>& i, int g) {
      return layer.activated(0, layer.given(t, i, g) + layer.part(product, i, g));
    };
    Tensor of_reset;
    if (candidate) {
      const Tensor reset = layer.stage(
          "gru_reset", [&](const std::vector<Axis>& i) { return gate(i, kR) * before(i); });
      of_reset = matmul(reset, candidate, false, true, {}, where);
    }
    return std::vector<Tensor>{layer.stage("gru", [&](const std::vector<Axis>& i) {
      Expr inner = layer.given(t, i, kH, false);
      if (candidate) {
        inner = inner + of_reset(i) + layer.recurrent_bias(i, kH);
      } else {
        inner = inner + gate(i, kR) * (layer.part(product, i, kH) + layer.recurrent_bias(i, kH));
      }
      const Expr z = gate(i, kZ);
      const Expr next = (make_const(z.dtype(), 1) - z) * layer.activated(1, inner) + z * before(i);
      return layer.kept(t, i, next, before(i));
    })};
  });
}

RecurrentResult rnn(const Tensor& x, const RecurrentWeights& w,
                    const RecurrentAttributes& attributes, Where where) {
  const Layer layer({"rnn", where}, x, w, attributes, 1);
  return layer.run({layer.first(w.state)}, [&](int64_t t, const std::vector<Tensor>& now) {
    const Tensor product = layer.product(now[0]);
    return std::vector<Tensor>{layer.stage("rnn", [&](const std::vector<Axis>& i) {
      const Expr next = layer.activated(0, layer.given(t, i, 0) + layer.part(product, i, 0));
      return layer.kept(t, i, next, now[0](i));
    })};
  });
}

}  // namespace heddle::ops
