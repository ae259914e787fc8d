#include "network/run/output_difference.h"

#include <algorithm>
#include <cmath>

#include "network/cut/check_network.h"
#include "runtime/kernel/check_arguments.h"

namespace heddle::network {
namespace {

/// The largest difference that rounding explains, relative to the largest element.
double relative_tolerance(DataType t) {
  if (t == f16) return 2e-2;
  if (t == bf16) return 1e-1;
  if (t.is_float8()) return t == f8e4m3 ? 0.5 : 1.0;
  return t.is_float() ? 1e-3 : 0;
}

/// The tolerance of an output in f32 of a graph that rounds to f16 on the way is that of f16.
double largest_tolerance(const std::vector<Tensor>& outputs) {
  double largest = 0;
  const ComputeDag dag(outputs);
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    for (int o = 0; o < op.num_outputs(); ++o)
      largest = std::max(largest, relative_tolerance(op.output(o).dtype()));
  }
  return largest;
}

}  // namespace

std::vector<Tensor> call_args(const Network& network) {
  std::vector<Tensor> args;
  for (const Tensor& t : all_args(network, ComputeDag(network.outputs()))) {
    if (t.op()->data() == nullptr) args.push_back(t);
  }
  for (const Var& size : network.sizes()) {
    if (!give_size(args, size))
      args.insert(args.begin(), placeholder({size.expr()}, u8, size->name));
  }
  return args;
}

namespace {

/// `seed` changes with each input.
NDArray random_array(bool output, const Extents& shape, DataType dtype, uint64_t& seed,
                     Device device) {
  return (output ? NDArray::zeros(shape, dtype) : NDArray::random(shape, dtype, seed++))
      .to_device(device);
}

}  // namespace

std::vector<NDArray> random_arrays(const std::vector<Tensor>& args, Device device) {
  std::vector<NDArray> arrays;
  uint64_t seed = 1;
  for (const Tensor& t : args)
    arrays.push_back(random_array(!t.op()->is_placeholder(), t.extents(), t.dtype(), seed, device));
  return arrays;
}

std::vector<NDArray> random_arrays(const NetworkKernel& kernel, std::span<const int64_t> sizes,
                                   Device device) {
  std::vector<NDArray> arrays;
  uint64_t seed = 1;
  for (const KernelArg& arg : kernel.args()) {
    Extents shape = arg.shape;
    set_extents(shape, arg.symbolic, sizes);
    arrays.push_back(random_array(arg.output, shape, arg.dtype, seed, device));
  }
  return arrays;
}

void randomise_inputs(const NetworkKernel& kernel, std::span<const NDArray> arrays, uint64_t seed) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const KernelArg& arg = kernel.args()[i];
    if (arg.output || arg.constant || std::ranges::count(kernel.updated(), i) > 0) continue;
    arrays[i].copy_from(NDArray::random(arrays[i].shape(), arg.dtype, seed++));
  }
}

std::vector<NDArray> host_copies(std::span<const NDArray> arrays) {
  std::vector<NDArray> copies;
  for (const NDArray& a : arrays) copies.push_back(a.device().is_cpu() ? a.copy() : a.to_host());
  return copies;
}

std::vector<NDArray> results_of(const NetworkKernel& kernel, const std::vector<Tensor>& args,
                                std::span<const NDArray> arrays) {
  std::vector<NDArray> results;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].op()->is_placeholder()) results.push_back(arrays[i]);
  }
  for (const size_t at : kernel.updated()) results.push_back(arrays[at]);
  return results;
}

StateCopies::StateCopies(std::span<const size_t> updated, std::span<const NDArray> arrays) {
  for (const size_t at : updated) {
    states_.push_back(arrays[at]);
    before_.push_back(arrays[at].copy());
  }
}

void StateCopies::restore() const {
  for (size_t i = 0; i < states_.size(); ++i) states_[i].copy_from(before_[i]);
}

std::string output_difference(const std::vector<Tensor>& outputs, std::span<const NDArray> got,
                              std::span<const NDArray> want) {
  const double of_floats = largest_tolerance(outputs);
  for (size_t o = 0; o < want.size(); ++o) {
    double largest = 0;
    for (int64_t i = 0; i < want[o].size(); ++i) {
      const double value = std::abs(want[o].get(i));
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    const double tolerance = want[o].dtype().is_float() ? of_floats : 0;
    const Difference d = compare(got[o], want[o], tolerance, tolerance * largest);
    if (!d.ok()) return "output " + std::to_string(o) + ": " + describe(d, got[o]);
  }
  return "";
}

}  // namespace heddle::network
