#include "network/typed_networks.h"

namespace heddle::testing {

std::vector<Tensor> TypedNetworkDrawer::run() {
  // Which of two nearly equal elements is larger depends on rounding, so what is compared with the
  // interpreter sorts nothing.
  switch (pick(0, large_ ? 8 : 7)) {
    case 0: return {classifier()};
    case 1:
    case 2:
    case 3: return {stages()};
    case 4: return {transformer_of(tokens())};
    case 5: return decoder();
    case 6: return {audio()};
    case 7: return {recurrent()};
    default: return detector();
  }
}

Tensor TypedNetworkDrawer::activation(const Tensor& x) {
  switch (pick(0, 5)) {
    case 0: return ops::relu(x);
    case 1: return ops::silu(x);
    case 2: return ops::gelu(x);
    case 3: return ops::hardswish(x);
    case 4: return ops::leaky_relu(x);
    default: return ops::relu6(x);
  }
}

Tensor TypedNetworkDrawer::operand(const Tensor& x) {
  if (!quantised_) return x;
  const Tensor scaled = ops::round(ops::mul(x, Expr(16.0f)));
  if (rng_.chance(0.5)) return ops::cast(ops::clip(scaled, -128, 127), i8);
  return ops::cast(ops::clip(ops::add(scaled, Expr(128.0f)), 0, 255), u8);
}

Tensor TypedNetworkDrawer::factors(Shape shape) {
  return quantised_ ? constant_placeholder(std::move(shape), i8, "weights")
                    : weight(std::move(shape));
}

Tensor TypedNetworkDrawer::result(const Tensor& y, Shape scales) {
  return quantised_ ? ops::mul(ops::cast(y, f32), weight(std::move(scales), "scale")) : y;
}

Tensor TypedNetworkDrawer::linear(const Tensor& x, int64_t columns) {
  const Tensor y = result(ops::matmul(operand(x), factors({x.extent(-1), columns})), {columns});
  return rng_.chance(0.5) ? ops::add(y, weight({columns}, "bias")) : y;
}

Tensor TypedNetworkDrawer::dense(const Tensor& x, int64_t columns) {
  const Tensor y = ops::dense(operand(x), factors({columns, x.extent(1)}));
  return ops::add(result(y, {columns}), weight({columns}, "bias"));
}

Tensor TypedNetworkDrawer::norm(const Tensor& x) {
  const int64_t n = x.extent(-1);
  return rng_.chance(0.5) ? ops::rms_norm(x, weight({n}))
                          : ops::layer_norm(x, weight({n}), weight({n}));
}

Tensor TypedNetworkDrawer::tokens() {
  const int64_t batch = one_of({1, 2}, {1, 1, 3, 32}),
                rows = one_of({1, 5, 16, 33}, {1, 7, 49, 77, 128, 197}),
                width = one_of({32, 40, 64}, {192, 384, 512, 768});
  if (rng_.chance(0.7)) return input({batch, rows, width});
  return ops::gather(weight({100, width}, "embedding"), placeholder({batch, rows}, i64, "ids"));
}

/// (batch, heads, rows, depth of a head)
Tensor TypedNetworkDrawer::heads(const Tensor& x, int64_t count) {
  return ops::transpose(ops::reshape(x, {x.extent(0), x.extent(1), count, x.extent(2) / count}),
                        {0, 2, 1, 3});
}

/// Positions as rotations of pairs of elements: half a head apart, as Llama has them.
Tensor TypedNetworkDrawer::rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  const std::vector<Tensor> parts = ops::split(x, 2, -1);
  const Tensor turned = ops::concat({ops::neg(parts[1]), parts[0]}, -1);
  return ops::add(ops::mul(x, cosine), ops::mul(turned, sine));
}

namespace {

Tensor repeated(const Tensor& x, int64_t times) {
  const Tensor all = ops::broadcast_to(ops::expand_dims(x, {2}),
                                       {x.extent(0), x.extent(1), times, x.extent(2), x.extent(3)});
  return ops::reshape(all, {x.extent(0), x.extent(1) * times, x.extent(2), x.extent(3)});
}

}  // namespace

Tensor TypedNetworkDrawer::attention(const Tensor& x, const Attends& how) {
  const int64_t width = x.extent(2), depth = width / how.count, rows = x.extent(1);
  Tensor q = heads(linear(x, width), how.count),
         k = heads(linear(x, how.of_keys * depth), how.of_keys),
         v = heads(linear(x, how.of_keys * depth), how.of_keys);
  if (how.rotates) {
    const Tensor cosine = weight({rows, depth}, "cosine"), sine = weight({rows, depth}, "sine");
    q = rotary(q, cosine, sine);
    k = rotary(k, cosine, sine);
    if (rng_.chance(0.3)) kept_.insert(kept_.end(), {k, v});
  }
  if (how.of_keys < how.count) {  // each head of keys serves a group of queries
    k = repeated(k, how.count / how.of_keys);
    v = repeated(v, how.count / how.of_keys);
  }
  Tensor scores = ops::mul(ops::matmul(q, k, false, true), Expr(1.0 / double(depth)));
  if (how.masks) {
    scores = ops::add(scores, rng_.chance(0.7) ? input({x.extent(0), 1, rows, rows}, "mask")
                                               : weight({how.count, rows, rows}, "bias"));
  }
  const Tensor sums = ops::matmul(ops::softmax(scores), v);
  return ops::reshape(ops::transpose(sums, {0, 2, 1, 3}), {x.extent(0), rows, width});
}

Tensor TypedNetworkDrawer::transformer_of(Tensor x) {
  const int64_t width = x.extent(2), count = divisor(width, {4, 8, 12});
  for (int64_t n = pick(1, 2); n > 0; --n) {
    const Attends how{.masks = rng_.chance(0.5), .count = count, .of_keys = count};
    x = norm(ops::add(linear(attention(x, how), width), x));
    x = norm(ops::add(linear(activation(linear(x, 2 * width)), width), x));
  }
  return x;
}

/// Convolutions along time before a transformer, as encoders of speech have them.
Tensor TypedNetworkDrawer::audio() {
  const int64_t bands = one_of({3, 10}, {80, 128}), width = one_of({16, 24}, {384, 512});
  Tensor x = input({pick(1, 2), bands, one_of({9, 20}, {100, 301})});
  for (const int64_t stride : {1, 2}) {
    x = ops::gelu(ops::conv1d(x, weight({width, x.extent(1), 3}),
                              {.stride = {stride}, .padding = {1}}, weight({width}, "bias")));
  }
  x = ops::transpose(x, {0, 2, 1});
  return transformer_of(ops::add(x, weight({x.extent(1), width}, "positions")));
}

std::vector<Tensor> TypedNetworkDrawer::decoder() {
  Tensor x = tokens();
  const int64_t width = x.extent(2), count = divisor(width / 2, {4, 8, 12});  // pairs in a head
  const Attends how{.rotates = true,
                    .masks = rng_.chance(0.7),
                    .count = count,
                    .of_keys = divisor(count, {1, 2, 4})};
  for (int64_t n = pick(1, 2); n > 0; --n) {
    x = ops::add(linear(attention(norm(x), how), width), x);
    const Tensor y = norm(x);
    x = ops::add(linear(ops::mul(ops::silu(linear(y, 2 * width)), linear(y, 2 * width)), width), x);
  }
  x = norm(x);
  if (rng_.chance(0.5)) {  // what follows the last token
    const int64_t rows = x.extent(1);
    x = ops::slice(x, {0, rows - 1, 0}, {x.extent(0), rows, width});
    x = ops::softmax(linear(x, one_of({50, 77}, {1000, 4099})));
  }
  std::vector<Tensor> outputs{x};
  outputs.insert(outputs.end(), kept_.begin(), kept_.end());
  return outputs;
}

/// A few steps of a recurrent cell, with weights that all steps share.
Tensor TypedNetworkDrawer::recurrent() {
  const bool is_lstm = rng_.chance(0.5);
  const int64_t batch = one_of({1, 3}, {1, 8, 32}), width = one_of({8, 12}, {64, 257}),
                state = one_of({8, 20}, {128, 200}), gates = is_lstm ? 4 : 3, steps = pick(1, 3);
  const Tensor x = input({batch, steps, width});
  const Tensor w = weight({width, gates * state}), r = weight({state, gates * state}, "recurrence"),
               bias = weight({gates * state}, "bias");
  Tensor h = input({batch, state}, "h"), c = input({batch, state}, "c");
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor now =
        ops::reshape(ops::slice(x, {0, t, 0}, {batch, t + 1, width}), {batch, width});
    const std::vector<Tensor> a =
        ops::split(ops::add(ops::matmul(now, w), bias), static_cast<int>(gates), 1);
    const std::vector<Tensor> b = ops::split(ops::matmul(h, r), static_cast<int>(gates), 1);
    const auto gate = [&](size_t g) { return ops::sigmoid(ops::add(a[g], b[g])); };
    if (is_lstm) {
      c = ops::add(ops::mul(gate(1), c), ops::mul(gate(0), ops::tanh(ops::add(a[3], b[3]))));
      h = ops::mul(gate(2), ops::tanh(c));
    } else {
      const Tensor z = gate(0);
      const Tensor n = ops::tanh(ops::add(a[2], ops::mul(gate(1), b[2])));
      h = ops::add(n, ops::mul(z, ops::sub(h, n)));
    }
  }
  return h;
}

}  // namespace heddle::testing
