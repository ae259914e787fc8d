// Products and convolutions to learn from.
#pragma once

#include "heddle/heuristics/heuristic.h"

namespace heddle {

/// A choice of a larger one takes long to measure, and teaches what one of this size does.
inline constexpr double kMostFlopsOnCpu = 1.5e9;

/// A product, a stack of them, or a convolution of this type with at most so many operations. A
/// third are convolutions. Their ids are subjects of the command line.
DrawnProblem draw_contraction(Rng& rng, DataType dtype, double most_flops);

/// A convolution alone; `padded`: one whose windows go beyond the image.
DrawnProblem draw_convolution(Rng& rng, DataType dtype, double most_flops, bool padded = false);

/// A product alone.
DrawnProblem draw_product(Rng& rng, DataType dtype, double most_flops);

}  // namespace heddle
