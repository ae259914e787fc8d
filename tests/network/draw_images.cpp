#include "network/typed_networks.h"

namespace heddle::testing {

Tensor TypedNetworkDrawer::image() {
  const int64_t side = large_ ? rng_.choose<int64_t>({7, 14, 28, 33, 56}) : pick(5, 14);
  return input({one_of({1, 2, 5}, {1, 1, 2, 8, 32}), one_of({1, 3, 8}, {3, 3, 16}), side,
                rng_.chance(0.8) ? side : side + 3});
}

Tensor TypedNetworkDrawer::conv(const Tensor& x, int64_t channels, int64_t window, ops::Conv how) {
  const int64_t dilation = how.dilation.empty() ? 1 : how.dilation[0];
  how.padding = {dilation * (window / 2)};
  const Tensor w = factors({channels, x.extent(1) / how.groups, window, window});
  const Tensor y = result(ops::conv2d(operand(x), w, how), {channels, 1, 1});
  if (rng_.chance(0.5)) return ops::add(y, weight({channels, 1, 1}, "bias"));
  return ops::batch_norm(y, weight({channels}), weight({channels}), weight({channels}),
                         weight({channels}, "variance"));
}

Tensor TypedNetworkDrawer::depthwise(const Tensor& x, int64_t window, int64_t stride) {
  const int64_t c = x.extent(1);
  const Tensor y = ops::depthwise_conv2d(operand(x), factors({c, 1, window, window}),
                                         {.stride = {stride}, .padding = {window / 2}});
  return ops::add(result(y, {c, 1, 1}), weight({c, 1, 1}, "bias"));
}

/// Twice as high and as wide.
Tensor TypedNetworkDrawer::transposed(const Tensor& x, int64_t channels) {
  struct Kind {
    int64_t window, padding, more;
  };
  const Kind k = rng_.choose<Kind>({{2, 0, 0}, {4, 1, 0}, {3, 1, 1}});
  return ops::conv_transpose2d(x, weight({x.extent(1), channels, k.window, k.window}),
                               {.stride = {2}, .padding = {k.padding}, .output_padding = {k.more}},
                               rng_.chance(0.5) ? weight({channels}, "bias") : Tensor());
}

Tensor TypedNetworkDrawer::excite(const Tensor& x) {
  const int64_t c = x.extent(1);
  const Tensor few = activation(conv(ops::global_avg_pool(x), std::max<int64_t>(1, c / 4), 1));
  return ops::mul(x, ops::sigmoid(conv(few, c, 1)));
}

Tensor TypedNetworkDrawer::image_norm(const Tensor& x) {
  const int64_t c = x.extent(1);
  if (rng_.chance(0.5)) return ops::instance_norm(x, weight({c}), weight({c}));
  return ops::group_norm(x, divisor(c, {2, 3, 4, 8, 32}), weight({c}), weight({c}));
}

Tensor TypedNetworkDrawer::residual(const Tensor& x) {
  const int64_t c = x.extent(1);
  const int64_t groups = divisor(c, {1, 1, 2, 4, 32});
  const Tensor y = activation(conv(x, c, 3, {.groups = groups}));
  return activation(ops::add(conv(rng_.chance(0.3) ? image_norm(y) : y, c, 3), x));
}

Tensor TypedNetworkDrawer::inverted_residual(const Tensor& x) {
  const int64_t c = x.extent(1);
  const Tensor wide = activation(conv(x, 3 * c, 1));
  const Tensor y = activation(depthwise(wide, rng_.choose<int64_t>({3, 5, 7})));
  return ops::add(conv(rng_.chance(0.5) ? excite(y) : y, c, 1), x);
}

/// A depthwise filter, a norm over channels, and two products.
Tensor TypedNetworkDrawer::mixed_channels(const Tensor& x) {
  const Tensor y = ops::transpose(depthwise(x, 7), {0, 2, 3, 1});
  const Tensor wide = ops::gelu(linear(norm(y), 2 * x.extent(1)));
  return ops::add(ops::transpose(linear(wide, x.extent(1)), {0, 3, 1, 2}), x);
}

/// Half of the channels goes through convolutions, and the channels of both halves alternate.
Tensor TypedNetworkDrawer::shuffled(const Tensor& x) {
  const int64_t c = x.extent(1), half = c / 2;
  if (c % 2 != 0) return conv(x, 8, 1);
  const std::vector<Tensor> parts = ops::split(x, 2, 1);
  const Tensor y = activation(conv(depthwise(activation(conv(parts[1], half, 1)), 3), half, 1));
  const Tensor all = ops::concat({parts[0], y}, 1);
  const Tensor split = ops::reshape(all, {x.extent(0), 2, half, x.extent(2), x.extent(3)});
  return ops::reshape(ops::transpose(split, {0, 2, 1, 3, 4}),
                      {x.extent(0), c, x.extent(2), x.extent(3)});
}

/// A coarser image, made finer again and put beside or added to the image.
Tensor TypedNetworkDrawer::pyramid(const Tensor& x) {
  const int64_t c = x.extent(1), h = x.extent(2), w = x.extent(3);
  const Tensor coarse = activation(conv(x, c, 3, {.stride = {2}}));
  if (rng_.chance(0.5)) {
    const auto mode = rng_.chance(0.5) ? ops::ResizeMode::Nearest : ops::ResizeMode::Linear;
    return conv(ops::add(ops::resize(coarse, {h, w}, {.mode = mode}), conv(x, c, 1)), c, 3);
  }
  const Tensor fine = ops::slice(transposed(coarse, 8), {0, 0, 0, 0}, {x.extent(0), 8, h, w});
  return activation(conv(ops::concat({x, fine}, 1), 8, 3));
}

Tensor TypedNetworkDrawer::dilations(const Tensor& x) {
  std::vector<Tensor> parts{activation(conv(x, 8, 1))};
  for (int64_t n = pick(1, 2); n > 0; --n)
    parts.push_back(activation(conv(x, 8, 3, {.dilation = {rng_.choose<int64_t>({2, 3, 6})}})));
  return conv(ops::concat(parts, 1), 8, 1);
}

Tensor TypedNetworkDrawer::gate_of_positions(const Tensor& x) {
  const Tensor both = ops::concat({ops::mean(x, {1}, true), ops::max(x, {1}, true)}, 1);
  return ops::mul(x, ops::sigmoid(conv(both, 1, 7)));
}

/// Attention within windows of an image that may be moved before, as Swin has it.
Tensor TypedNetworkDrawer::window_attention(const Tensor& x) {
  const int64_t n = x.extent(0), c = x.extent(1), h = x.extent(2), w = x.extent(3);
  int64_t side = 7;
  while (h % side != 0 || w % side != 0) --side;
  Tensor y = ops::transpose(x, {0, 2, 3, 1});
  const bool moved = side > 1 && rng_.chance(0.5);
  if (moved) y = ops::roll(ops::roll(y, -side / 2, 1), -side / 2, 2);
  y = ops::reshape(y, {n, h / side, side, w / side, side, c});
  y = ops::reshape(ops::transpose(y, {0, 1, 3, 2, 4, 5}),
                   {n * h * w / side / side, side * side, c});
  const int64_t count = divisor(c, {2, 4, 3});
  y = attention(norm(y), {.count = count, .of_keys = count});
  y = ops::reshape(y, {n, h / side, w / side, side, side, c});
  y = ops::reshape(ops::transpose(y, {0, 1, 3, 2, 4, 5}), {n, h, w, c});
  if (moved) y = ops::roll(ops::roll(y, side / 2, 1), side / 2, 2);
  return ops::add(ops::transpose(y, {0, 3, 1, 2}), x);
}

Tensor TypedNetworkDrawer::pooled(const Tensor& x) {
  if (x.extent(2) <= 3 || x.extent(3) <= 3) return activation(conv(x, x.extent(1), 1));
  switch (pick(0, 3)) {
    case 0: return ops::max_pool(x, {.kernel = {2}});
    case 1: return ops::max_pool(x, {.kernel = {3}, .stride = {2}, .padding = {1}});
    case 2: return ops::avg_pool(x, {.kernel = {3}, .stride = {2}, .padding = {1}});
    default: return activation(depthwise(x, 3, 2));
  }
}

Tensor TypedNetworkDrawer::image_block(const Tensor& x) {
  const int64_t c = x.extent(1);
  switch (pick(0, 14)) {
    case 0: return activation(conv(x, one_of({6, 8, 13, 24}, {24, 48, 64, 100, 256}), 3));
    case 1: return residual(x);
    case 2: return inverted_residual(x);
    case 3: return mixed_channels(x);
    case 4: return ops::concat({conv(x, 8, 1), activation(conv(x, 8, 3))}, 1);
    case 5: return pooled(x);
    case 6: return activation(conv(x, 2 * c, 3, {.groups = divisor(c, {2, 3, 4, c})}));
    case 7: return dilations(x);
    case 8: return activation(image_norm(conv(x, c, 3)));
    case 9: return pyramid(x);
    case 10: return shuffled(x);
    case 11: return ops::concat({x, conv(activation(x), 12, 3)}, 1);
    case 12: return gate_of_positions(x);
    case 13: return window_attention(x);
    default: return ops::avg_pool(ops::pixel_shuffle(conv(x, 4 * c, 1), 2), {.kernel = {2}});
  }
}

/// Convolutions, and products behind them, as small classifiers have.
Tensor TypedNetworkDrawer::classifier() {
  Tensor x = image();
  for (int64_t n = pick(1, 2); n > 0; --n)
    x = activation(conv(x, one_of({4, 16, 32}, {6, 32, 64}), 3));
  x = ops::flatten(ops::max_pool(x, {.kernel = {2}}));
  x = activation(dense(x, one_of({16, 64}, {84, 512})));
  return dense(x, 10);
}

/// Blocks of a network for images, and a mean.
Tensor TypedNetworkDrawer::stages() {
  Tensor x = image();
  const int64_t c = x.extent(2) <= 14 ? one_of({8, 12}, {40, 96, 192, 384, 768})
                                      : one_of({8, 12}, {16, 24, 32, 64});
  x = activation(conv(x, c, rng_.choose<int64_t>({3, 7}), {.stride = {pick(1, 2)}}));
  for (int64_t n = pick(2, 4); n > 0; --n) x = image_block(x);
  return dense(ops::flatten(ops::global_avg_pool(x)), 10);
}

/// The best of all positions, and their boxes.
std::vector<Tensor> TypedNetworkDrawer::detector() {
  constexpr int64_t kClasses = 5;
  Tensor x = activation(conv(image(), 16, 3, {.stride = {2}}));
  x = image_block(x);
  const int64_t n = x.extent(0), places = x.extent(2) * x.extent(3);
  const auto rows = [&](const Tensor& y) {
    return ops::reshape(ops::transpose(y, {0, 2, 3, 1}), {n, places, y.extent(1)});
  };
  const Tensor scores = ops::max(ops::sigmoid(rows(conv(x, kClasses, 3))), {2});
  const Tensor boxes = rows(conv(x, 4, 3));
  const ops::Sorted best = ops::top_k(scores, std::min<int64_t>(places, pick(1, 100)));
  return {best.values, ops::gather_nd(boxes, ops::expand_dims(best.positions, {2}), 1)};
}

}  // namespace heddle::testing
