// Random small networks of one floating-point type, with the blocks of the networks that people
// run: convolutions with norms, residuals, squeeze-and-excitation and depthwise filters;
// transformers with norms, rotary positions, grouped heads, masks and gated products.
#pragma once

#include "heddle/support/rng.h"
#include "network/network_testing.h"

namespace heddle::testing {

class TypedNetworkDrawer {
 public:
  TypedNetworkDrawer(Rng& rng, DataType type) : rng_(rng), type_(type) {}

  std::vector<Tensor> run() {
    Tensor y;
    switch (pick(0, 3)) {
      case 0: y = classifier(); break;
      case 1: y = stages(); break;
      case 2: y = transformer(); break;
      default: y = decoder();
    }
    return {y};
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  Tensor input(Shape shape, const char* name = "x") {
    return placeholder(std::move(shape), type_, name);
  }
  Tensor weight(Shape shape, const char* name = "weights") {
    return constant_placeholder(std::move(shape), type_, name);
  }

  Tensor activation(const Tensor& x) {
    switch (pick(0, 4)) {
      case 0: return ops::relu(x);
      case 1: return ops::silu(x);
      case 2: return ops::gelu(x);
      case 3: return ops::hardswish(x);
      default: return ops::relu6(x);
    }
  }

  // ---- images, channels first ----

  Tensor conv(const Tensor& x, int64_t channels, int64_t window, int64_t stride = 1) {
    const ops::Conv how{.stride = {stride}, .padding = {window / 2}};
    const Tensor w = weight({channels, x.extent(1), window, window});
    if (rng_.chance(0.5)) return ops::conv2d(x, w, how, weight({channels}, "bias"));
    const Tensor y = ops::conv2d(x, w, how);
    return ops::batch_norm(y, weight({channels}), weight({channels}), weight({channels}),
                           weight({channels}, "variance"));
  }

  Tensor depthwise(const Tensor& x, int64_t window) {
    const int64_t c = x.extent(1);
    return ops::depthwise_conv2d(x, weight({c, 1, window, window}), {.padding = {window / 2}},
                                 weight({c}, "bias"));
  }

  Tensor excite(const Tensor& x) {
    const int64_t c = x.extent(1);
    const Tensor few = activation(conv(ops::global_avg_pool(x), std::max<int64_t>(1, c / 4), 1));
    return ops::mul(x, ops::sigmoid(conv(few, c, 1)));
  }

  Tensor image_block(const Tensor& x) {
    const int64_t c = x.extent(1);
    switch (pick(0, 5)) {
      case 0: return activation(conv(x, rng_.choose<int64_t>({6, 8, 16, 24}), 3));
      case 1: return activation(ops::add(conv(activation(conv(x, c, 3)), c, 3), x));
      case 2: {  // an inverted residual
        const Tensor wide = activation(conv(x, 3 * c, 1));
        const Tensor y = activation(depthwise(wide, rng_.choose<int64_t>({3, 5})));
        return ops::add(conv(rng_.chance(0.5) ? excite(y) : y, c, 1), x);
      }
      case 3: {  // a depthwise filter, a norm over channels, and two products
        const Tensor y = ops::transpose(depthwise(x, 7), {0, 2, 3, 1});
        const Tensor wide = ops::gelu(linear(norm(y), 2 * c));
        return ops::add(ops::transpose(linear(wide, c), {0, 3, 1, 2}), x);
      }
      case 4: return ops::concat({conv(x, 8, 1), activation(conv(x, 8, 3))}, 1);
      default:
        return x.extent(2) > 3 ? ops::max_pool(x, {.kernel = {2}}) : activation(conv(x, c, 1));
    }
  }

  Tensor image() {
    const int64_t side = pick(5, 14);
    return input({rng_.choose<int64_t>({1, 2, 5}), rng_.choose<int64_t>({1, 3, 8}), side, side});
  }

  /// Convolutions, and products behind them, as small classifiers have.
  Tensor classifier() {
    Tensor x = image();
    for (int64_t n = pick(1, 2); n > 0; --n)
      x = activation(conv(x, rng_.choose<int64_t>({4, 16, 32}), 3));
    x = ops::flatten(ops::max_pool(x, {.kernel = {2}}));
    x = activation(dense(x, rng_.choose<int64_t>({16, 64})));
    return dense(x, 10);
  }

  Tensor dense(const Tensor& x, int64_t columns) {
    return ops::dense(x, weight({columns, x.extent(1)}), weight({columns}, "bias"));
  }

  /// Blocks of a network for images, and a mean.
  Tensor stages() {
    Tensor x = activation(conv(image(), 8, 3));
    for (int64_t n = pick(2, 4); n > 0; --n) x = image_block(x);
    return dense(ops::flatten(ops::global_avg_pool(x)), 10);
  }

  // ---- rows of tokens ----

  Tensor linear(const Tensor& x, int64_t columns) {
    const Tensor y = ops::matmul(x, weight({x.extent(-1), columns}));
    return rng_.chance(0.5) ? ops::add(y, weight({columns}, "bias")) : y;
  }

  Tensor norm(const Tensor& x) {
    const int64_t n = x.extent(-1);
    return rng_.chance(0.5) ? ops::rms_norm(x, weight({n}))
                            : ops::layer_norm(x, weight({n}), weight({n}));
  }

  /// (batch, heads, rows, depth of a head)
  Tensor heads(const Tensor& x, int64_t count) {
    return ops::transpose(ops::reshape(x, {x.extent(0), x.extent(1), count, x.extent(2) / count}),
                          {0, 2, 1, 3});
  }

  /// Positions as rotations of pairs of elements: half a head apart, as Llama has them.
  Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
    const std::vector<Tensor> parts = ops::split(x, 2, -1);
    const Tensor turned = ops::concat({ops::neg(parts[1]), parts[0]}, -1);
    return ops::add(ops::mul(x, cosine), ops::mul(turned, sine));
  }

  Tensor attention(const Tensor& x, bool rotates, bool masks, int64_t count, int64_t of_keys) {
    const int64_t width = x.extent(2), depth = width / count, rows = x.extent(1);
    Tensor q = heads(linear(x, width), count), k = heads(linear(x, of_keys * depth), of_keys),
           v = heads(linear(x, of_keys * depth), of_keys);
    if (rotates) {
      const Tensor cosine = weight({rows, depth}, "cosine"), sine = weight({rows, depth}, "sine");
      q = rotary(q, cosine, sine);
      k = rotary(k, cosine, sine);
    }
    if (of_keys < count) {  // each head of keys serves a group of queries
      k = repeated(k, count / of_keys);
      v = repeated(v, count / of_keys);
    }
    Tensor scores = ops::mul(ops::matmul(q, k, false, true), Expr(1.0 / double(depth)));
    if (masks) scores = ops::add(scores, input({x.extent(0), 1, rows, rows}, "mask"));
    const Tensor sums = ops::matmul(ops::softmax(scores), v);
    return ops::reshape(ops::transpose(sums, {0, 2, 1, 3}), {x.extent(0), rows, width});
  }

  static Tensor repeated(const Tensor& x, int64_t times) {
    const Tensor all = ops::broadcast_to(
        ops::expand_dims(x, {2}), {x.extent(0), x.extent(1), times, x.extent(2), x.extent(3)});
    return ops::reshape(all, {x.extent(0), x.extent(1) * times, x.extent(2), x.extent(3)});
  }

  Tensor tokens() {
    return input(
        {pick(1, 2), rng_.choose<int64_t>({1, 5, 16, 33}), rng_.choose<int64_t>({32, 64})});
  }

  Tensor transformer() {
    Tensor x = tokens();
    for (int64_t n = pick(1, 2); n > 0; --n) {
      x = norm(ops::add(linear(attention(x, false, rng_.chance(0.5), 4, 4), x.extent(2)), x));
      x = norm(ops::add(linear(ops::gelu(linear(x, 2 * x.extent(2))), x.extent(2)), x));
    }
    return x;
  }

  Tensor decoder() {
    Tensor x = tokens();
    const int64_t of_keys = rng_.choose<int64_t>({1, 2, 4});
    const bool masks = rng_.chance(0.7);
    for (int64_t n = pick(1, 2); n > 0; --n) {
      const int64_t width = x.extent(2);
      x = ops::add(linear(attention(norm(x), true, masks, 4, of_keys), width), x);
      const Tensor y = norm(x);
      x = ops::add(linear(ops::mul(ops::silu(linear(y, 2 * width)), linear(y, 2 * width)), width),
                   x);
    }
    return norm(x);
  }

  Rng& rng_;
  const DataType type_;
};

}  // namespace heddle::testing
