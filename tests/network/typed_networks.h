// Random small networks of one type, with the blocks of the networks that people run: convolutions
// (grouped, dilated, transposed, depthwise) with norms, residuals, concatenations, pyramids and
// squeeze-and-excitation; transformers with norms, rotary positions, grouped heads, masks, windows
// and gated products; recurrent cells.
#pragma once

#include "heddle/support/rng.h"
#include "network/network_testing.h"

namespace heddle::testing {

/// The extents of a network: few elements, which an interpreter computes, or those of networks.
enum class Sizes : uint8_t { Small, OfNetworks };

class TypedNetworkDrawer {
 public:
  /// With i8 the products are those of quantised networks, and what lies between is f32.
  TypedNetworkDrawer(Rng& rng, DataType type, Sizes sizes = Sizes::Small)
      : rng_(rng),
        quantised_(type == i8),
        type_(quantised_ ? f32 : type),
        large_(sizes == Sizes::OfNetworks) {}

  std::vector<Tensor> run();

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  int64_t one_of(const std::vector<int64_t>& small, const std::vector<int64_t>& of_networks) {
    return rng_.choose(large_ ? of_networks : small);
  }
  /// One of `candidates` that divides `n`; 1 where none does.
  int64_t divisor(int64_t n, std::vector<int64_t> candidates) {
    std::erase_if(candidates, [&](int64_t d) { return n % d != 0; });
    return candidates.empty() ? 1 : rng_.choose(candidates);
  }
  Tensor input(Shape shape, const char* name = "x") {
    return placeholder(std::move(shape), type_, name);
  }
  Tensor weight(Shape shape, const char* name = "weights") {
    return constant_placeholder(std::move(shape), type_, name);
  }
  Tensor activation(const Tensor& x);

  /// What a product takes and gives: `x` itself, or in a quantised network integers.
  Tensor operand(const Tensor& x);
  Tensor factors(Shape shape);
  /// `scales`: the shape of a factor for each column of the result.
  Tensor result(const Tensor& y, Shape scales);
  Tensor linear(const Tensor& x, int64_t columns);
  Tensor dense(const Tensor& x, int64_t columns);
  Tensor norm(const Tensor& x);

  // ---- draw_images.cpp: images, channels first
  Tensor image();
  Tensor conv(const Tensor& x, int64_t channels, int64_t window, ops::Conv how = {});
  Tensor depthwise(const Tensor& x, int64_t window, int64_t stride = 1);
  Tensor transposed(const Tensor& x, int64_t channels);
  Tensor excite(const Tensor& x);
  Tensor image_norm(const Tensor& x);
  Tensor residual(const Tensor& x);
  Tensor inverted_residual(const Tensor& x);
  Tensor mixed_channels(const Tensor& x);
  Tensor shuffled(const Tensor& x);
  Tensor pyramid(const Tensor& x);
  Tensor dilations(const Tensor& x);
  Tensor gate_of_positions(const Tensor& x);
  Tensor window_attention(const Tensor& x);
  Tensor pooled(const Tensor& x);
  Tensor image_block(const Tensor& x);
  Tensor classifier();
  Tensor stages();
  std::vector<Tensor> detector();

  // ---- draw_tokens.cpp: rows of tokens
  Tensor tokens();
  Tensor heads(const Tensor& x, int64_t count);
  Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine);
  struct Attends {
    bool rotates = false, masks = false;
    int64_t count = 4, of_keys = 4;
  };
  Tensor attention(const Tensor& x, const Attends& how);
  Tensor transformer_of(Tensor x);
  Tensor audio();
  std::vector<Tensor> decoder();
  Tensor recurrent();

  Rng& rng_;
  const bool quantised_;
  const DataType type_;
  const bool large_;
  std::vector<Tensor> kept_;  ///< keys and values, which a decoder returns beside its result
};

}  // namespace heddle::testing
