// Whether two ways to run a network compute the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// The arguments of a network that brings its constants along: inputs, then outputs.
std::vector<Tensor> call_args(const Network& network);

/// An array for each of these arguments: random inputs, and outputs of zeros.
std::vector<NDArray> random_arrays(const std::vector<Tensor>& args);

/// Where the first output lies whose elements differ by more than rounding explains; empty where
/// none do.
std::string output_difference(std::span<const NDArray> got, std::span<const NDArray> want);

}  // namespace heddle::network
