// Networks over dimensions at one size, against the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/codegen/interpreter.h"
#include "heddle/dag/instance.h"
#include "heddle/network/network.h"

namespace heddle::testing {

/// "" when `kernel` computes at these sizes what the interpreter does. `args`: over the dimensions.
inline std::string wrong_at(const NetworkKernel& kernel, const std::vector<Tensor>& outputs,
                            const std::vector<Tensor>& args, const std::vector<SizeValue>& sizes) {
  const Instance here = at_sizes(outputs, sizes);
  std::vector<NDArray> arrays;
  std::vector<TensorValue> inputs;
  for (const Tensor& t : here.of(args)) {
    const bool input = t.op()->is_placeholder();
    arrays.push_back(input ? NDArray::random(t.extents(), t.dtype(), arrays.size() + 1)
                           : NDArray::full(t.extents(), t.dtype(), 77));
    if (input) inputs.push_back({t, arrays.back()});
  }
  kernel.call(arrays);
  const std::vector<NDArray> want = interpret(here.outputs, inputs);
  for (size_t o = 0; o < want.size(); ++o) {
    const NDArray& have = arrays[arrays.size() - want.size() + o];
    const Difference d = compare(have, want[o], 1e-4, 1e-4);
    if (!d.ok()) return "output " + std::to_string(o) + ": " + describe(d, have);
  }
  return "";
}

}  // namespace heddle::testing
