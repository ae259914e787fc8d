// Teaches a fake GPU what the kernels of a program compute: the emulator runs them.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "driver/build_cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/support/error.h"
#include "runtime/cuda/fake_driver.h"

namespace heddle::testing {

inline void emulate_kernel(cuda::FakeDriver& driver, const GpuKernel& kernel) {
  GpuProgram one;
  one.name = kernel.name;
  one.args = kernel.args;
  one.main = {kernel};
  const auto body = [one](const std::vector<void*>& parameters) {
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < one.args.size(); ++i) {
      const Buffer& b = one.args[i];
      arrays.push_back(NDArray::wrap(parameters[i], describe(b).shape, b->dtype));
    }
    // Nothing may be thrown through the driver, into a library with a C++ library of its own.
    try {
      emulate(one, arrays);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  };
  driver.kernels[kernel.name] = {kernel.args.size(), body};
}

inline void emulate_kernels(cuda::FakeDriver& driver, const GpuProgram& program) {
  for (const auto* kernels : {&program.main, &program.prepare})
    for (const GpuKernel& kernel : *kernels) emulate_kernel(driver, kernel);
}

}  // namespace heddle::testing
