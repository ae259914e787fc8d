// Comparison of the results of two ways to run a network.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// The arguments of a network that contains its constants: inputs, then outputs. A size that is in
/// the shape of none of them has an input of its own.
std::vector<Tensor> call_args(const Network& network);

/// An array for each of these arguments: random inputs, and outputs of zeros.
std::vector<NDArray> random_arrays(const std::vector<Tensor>& args, Device device = Device::cpu());

/// The same for the arguments of a kernel at these sizes, which are those of NetworkKernel::sizes.
std::vector<NDArray> random_arrays(const NetworkKernel& kernel, std::span<const int64_t> sizes,
                                   Device device);

/// Gives the inputs among the arrays of a kernel other random values, but not those that calls
/// update and constants, of which kernels keep what they derived. After a call with other values
/// memory holds no right result that a variant which writes nothing could leave there.
void randomise_inputs(const NetworkKernel& kernel, std::span<const NDArray> arrays, uint64_t seed);

/// Copies on the CPU, which later calls do not change.
std::vector<NDArray> host_copies(std::span<const NDArray> arrays);

/// The arrays of the arguments that are outputs, then those that calls update.
std::vector<NDArray> results_of(const NetworkKernel& kernel, const std::vector<Tensor>& args,
                                std::span<const NDArray> arrays);

/// The contents of the arrays that calls update, so that two calls can be compared.
class StateCopies {
 public:
  StateCopies() = default;
  /// `updated`: which of the arrays calls update, as NetworkKernel::updated.
  StateCopies(std::span<const size_t> updated, std::span<const NDArray> arrays);
  void restore() const;

 private:
  std::vector<NDArray> states_, before_;
};

/// The place of the first of `outputs` whose elements differ by more than rounding to the shortest
/// type of their graph explains; empty where none does.
std::string output_difference(const std::vector<Tensor>& outputs, std::span<const NDArray> got,
                              std::span<const NDArray> want);

}  // namespace heddle::network
