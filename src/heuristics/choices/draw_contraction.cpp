#include "heuristics/choices/draw_contraction.h"

#include <algorithm>

#include "heddle/ops/conv.h"
#include "heddle/ops/linalg.h"
#include "heuristics/choices/draw.h"

namespace heddle::learning {
namespace {

// Sizes of layers of known networks.
const std::vector<std::int64_t>& known_sizes() {
  static const std::vector<std::int64_t> sizes{64,  96,  128, 192, 256,  320,  384,  512,  640,
                                               768, 784, 800, 960, 1000, 1024, 1280, 2048, 3072};
  return sizes;
}

struct Product {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool ta = false, tb = false, constant = false;
  double flops() const { return 2.0 * double(batch) * double(m) * double(n) * double(k); }
};

// Draws few results of a long reduction, thin matrices, or neither.
Product draw_sizes(Rng& rng) {
  const double kind = rng.uniform_real();
  Product p;
  const auto any = [&](std::int64_t least, std::int64_t most) {
    return draw_extent(rng, least, most, known_sizes());
  };
  if (kind < 0.15) {
    p.m = draw_extent(rng, 1, 96);
    p.n = draw_extent(rng, 4, 96);
    p.k = draw_extent(rng, 512, 65536);
  } else if (kind < 0.35) {
    p.m = draw_extent(rng, 1, 32);
    p.n = any(16, 4096);
    p.k = any(16, 4096);
    if (rng.chance(0.3)) std::swap(p.m, p.n);
  } else if (kind < 0.5) {
    p.batch = rng.uniform_int(2, 64);
    p.m = any(8, 1024);
    p.n = any(8, 1024);
    p.k = any(8, 1024);
  } else {
    p.m = any(8, 4096);
    p.n = any(8, 4096);
    p.k = any(8, 4096);
  }
  return p;
}

DrawnProblem declare(const Product& p, DataType dtype) {
  const auto shape = [&](std::int64_t rows, std::int64_t cols, bool transposed) {
    std::vector<std::int64_t> s{rows, cols};
    if (transposed) std::swap(s[0], s[1]);
    if (p.batch > 1) s.insert(s.begin(), p.batch);
    return s;
  };
  const Tensor a = placeholder(shape(p.m, p.k, p.ta), dtype, "A");
  const std::vector<std::int64_t> b_shape = shape(p.k, p.n, p.tb);
  const Tensor b =
      p.constant ? constant_placeholder(b_shape, dtype, "B") : placeholder(b_shape, dtype, "B");
  std::string id = p.batch > 1 ? "batch_matmul:" + sizes_text({p.batch, p.m, p.n, p.k})
                               : "matmul:" + sizes_text({p.m, p.n, p.k});
  if (p.ta) id += ",ta=1";
  if (p.tb) id += ",tb=1";
  if (p.constant) id += ",const_b=1";
  return {
      id, {p.batch > 1 ? ops::batch_matmul(a, b, p.ta, p.tb) : ops::matmul(a, b, p.ta, p.tb)}, {}};
}

struct Convolution {
  std::int64_t n = 1, c = 1, h = 1, k = 1, r = 1, stride = 1, groups = 1;
  bool nhwc = true;
  std::int64_t pad() const { return r / 2; }
  double flops() const {
    const auto out = double((h + 2 * pad() - r) / stride + 1);
    return 2.0 * double(n) * double(c / groups) * double(k) * double(r * r) * out * out;
  }
};

Convolution draw_layer(Rng& rng) {
  static const std::vector<std::int64_t> images{7, 14, 28, 56, 112, 224},
      channels{3, 16, 24, 32, 64, 96, 128, 144, 192, 256, 320, 512, 1024, 2048};
  Convolution v;
  v.n = rng.chance(0.8) ? 1 : rng.uniform_int(2, 8);
  v.h = draw_extent(rng, 5, 160, images);
  v.c = draw_extent(rng, 3, 1024, channels);
  v.k = draw_extent(rng, 8, 1024, channels);
  v.r = rng.choose(std::vector<std::int64_t>{1, 1, 3, 3, 3, 5, 7});
  v.stride = rng.chance(0.75) || v.h < 8 ? 1 : 2;
  v.nhwc = rng.chance(0.6);
  return v;
}

DrawnProblem declare(const Convolution& v, DataType dtype) {
  using Sizes = std::vector<std::int64_t>;
  const Tensor x =
      placeholder(v.nhwc ? Sizes{v.n, v.h, v.h, v.c} : Sizes{v.n, v.c, v.h, v.h}, dtype, "x");
  const Tensor w = constant_placeholder(
      v.nhwc ? Sizes{v.r, v.r, v.c / v.groups, v.k} : Sizes{v.k, v.c / v.groups, v.r, v.r}, dtype,
      "weight");
  ops::Conv attributes;
  attributes.stride = {v.stride};
  attributes.padding = {v.pad()};
  attributes.groups = v.groups;
  attributes.layout = v.nhwc ? ops::NHWC : ops::Layout::ChannelsFirst;
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const bool depthwise = v.groups > 1 && v.groups == v.c && v.k == v.c;
  const std::string groups = v.groups > 1 && !depthwise ? ",groups=" + text(v.groups) : "";
  return {(depthwise ? "depthwise_conv2d:n=" : "conv2d:n=") + text(v.n) + ",c=" + text(v.c) +
              ",h=" + text(v.h) + ",w=" + text(v.h) + (depthwise ? "" : ",k=" + text(v.k)) +
              ",r=" + text(v.r) + ",stride=" + text(v.stride) + ",pad=" + text(v.pad()) +
              ",layout=" + (v.nhwc ? "nhwc" : "nchw") + groups,
          {depthwise ? ops::depthwise_conv2d(x, w, attributes) : ops::conv2d(x, w, attributes)},
          {}};
}

}  // namespace

DrawnProblem draw_product(Rng& rng, DataType dtype, double most_flops) {
  constexpr double kMostElements = 16e6, kFewestFlops = 2e4;
  for (;;) {
    Product p = draw_sizes(rng);
    p.ta = rng.chance(0.1);
    p.tb = rng.chance(0.25);
    p.constant = p.batch == 1 && rng.chance(0.3);
    const double elements =
        double(p.batch) *
        (double(p.m) * double(p.k) + double(p.k) * double(p.n) + double(p.m) * double(p.n));
    const double flops = p.flops();
    if (elements > kMostElements || flops > most_flops || flops < kFewestFlops) continue;
    return declare(p, dtype);
  }
}

DrawnProblem draw_bytes(Rng& rng) {
  const std::int64_t m = draw_extent(rng, 1, 512), n = draw_extent(rng, 8, 512),
                     k = draw_extent(rng, 16, 1024);
  const Tensor b = constant_placeholder({k, n}, i8, "B");
  return {
      "matmul of i8:" + sizes_text({m, n, k}), {ops::matmul(placeholder({m, k}, i8, "A"), b)}, {}};
}

DrawnProblem draw_aligned_product(Rng& rng, DataType dtype, double most_flops) {
  constexpr double kMostElements = 128e6;
  const std::int64_t unit = 16 / dtype.bytes();
  for (;;) {
    const auto size = [&](std::int64_t most) {
      return (draw_extent(rng, 32, most, known_sizes()) + unit - 1) / unit * unit;
    };
    Product p;
    if (rng.chance(0.25)) p.batch = rng.uniform_int(2, 64);
    p.m = size(8192);
    p.n = size(8192);
    p.k = size(16384);
    p.ta = rng.chance(0.15);
    p.tb = rng.chance(0.5);
    const double elements =
        double(p.batch) *
        (double(p.m) * double(p.k) + double(p.k) * double(p.n) + double(p.m) * double(p.n));
    if (elements <= kMostElements && p.flops() <= most_flops) return declare(p, dtype);
  }
}

DrawnProblem draw_convolution(Rng& rng, DataType dtype, double most_flops, bool padded) {
  constexpr double kFewestFlops = 2e5;
  for (;;) {
    const Convolution v = draw_layer(rng);
    if (v.flops() <= most_flops && v.flops() >= kFewestFlops && (!padded || v.pad() > 0))
      return declare(v, dtype);
  }
}

DrawnProblem draw_convolution_of_channels(Rng& rng, DataType dtype, double most_flops) {
  constexpr double kFewestFlops = 2e5;
  for (;;) {
    Convolution v = draw_layer(rng);
    const std::int64_t in_group =
        rng.chance(0.7) ? 1 : rng.choose(std::vector<std::int64_t>{2, 4, 8, 16, 32});
    if (v.c % in_group != 0 || v.c == in_group || v.pad() == 0) continue;
    v.k = v.c;
    v.groups = v.c / in_group;
    if (v.flops() <= most_flops && v.flops() >= kFewestFlops) return declare(v, dtype);
  }
}

DrawnProblem draw_contraction(Rng& rng, DataType dtype, double most_flops) {
  const double kind = rng.uniform_real();
  if (kind < 1.0 / 30) return draw_convolution_of_channels(rng, dtype, most_flops);
  if (kind < 1.0 / 3) return draw_convolution(rng, dtype, most_flops);
  return draw_product(rng, dtype, most_flops);
}

}  // namespace heddle::learning
