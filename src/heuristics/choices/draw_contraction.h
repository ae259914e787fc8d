// Random products and convolutions for training.
#pragma once

#include "heddle/heuristics/heuristic.h"

namespace heddle::learning {

/// The limit of operations. Larger problems take long to measure and give the same information.
inline constexpr double kMostFlopsOnCpu = 1.5e9;

/// A product, a batch of products, or a convolution of this type with at most `most_flops`
/// operations. A third are convolutions. Their ids are subjects of the command line.
DrawnProblem draw_contraction(Rng& rng, DataType dtype, double most_flops);

/// Draws a convolution. With `padded` its windows go beyond the image.
DrawnProblem draw_convolution(Rng& rng, DataType dtype, double most_flops, bool padded = false);

/// Draws a convolution with a filter for each channel, or for each group of channels, whose windows go beyond the image.
DrawnProblem draw_convolution_of_channels(Rng& rng, DataType dtype, double most_flops);

/// Draws a product.
DrawnProblem draw_product(Rng& rng, DataType dtype, double most_flops);

/// Draws a product of bytes whose second factor is constant.
DrawnProblem draw_bytes(Rng& rng);

/// Draws a product, or a batch of products, whose rows in memory are multiples of 16 bytes. Its
/// sizes are 32 at least.
DrawnProblem draw_aligned_product(Rng& rng, DataType dtype, double most_flops);

}  // namespace heddle::learning
