// Teaches a fake GPU what the kernels of a program compute: the emulator runs them.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "driver/build_cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "runtime/cuda/fake_driver.h"

namespace heddle::testing {

inline void emulate_kernel(cuda::FakeDriver& driver, const GpuKernel& kernel) {
  GpuProgram one;
  one.name = kernel.name;
  one.args = kernel.args;
  one.main = {kernel};
  one.sizes = kernel.sizes;
  const size_t buffers = one.args.size();
  // The emulator reads sizes from shapes, and here they are parameters.
  for (const Var& size : kernel.sizes)
    one.args.push_back(Buffer::make(size->name, u8, {size}, Scope::Argument));
  const auto body = [one, buffers](const std::vector<void*>& parameters) {
    std::vector<VarBinding> sizes;
    for (size_t i = 0; i < one.sizes.size(); ++i)
      sizes.push_back({one.sizes[i], Expr(reinterpret_cast<int64_t>(parameters[buffers + i]))});
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < one.args.size(); ++i) {
      const Buffer& b = one.args[i];
      Extents shape;
      for (const Expr& e : b->shape) shape.push_back(*as_int(simplify(substitute(e, sizes))));
      arrays.push_back(i < buffers ? NDArray::wrap(parameters[i], std::move(shape), b->dtype)
                                   : NDArray::zeros(std::move(shape), b->dtype));
    }
    // Nothing may be thrown through the driver, into a library with a C++ library of its own.
    try {
      emulate(one, arrays);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  };
  driver.kernels[kernel.name] = {buffers, body, kernel.maps.size(), kernel.sizes.size()};
}

inline void emulate_kernels(cuda::FakeDriver& driver, const GpuProgram& program) {
  for (const auto* kernels : {&program.main, &program.prepare})
    for (const GpuKernel& kernel : *kernels) emulate_kernel(driver, kernel);
}

/// The kernels then leave their outputs as they were.
inline void write_nothing(cuda::FakeDriver& driver, const GpuProgram& program) {
  for (const GpuKernel& kernel : program.main)
    driver.kernels[kernel.name].body = [](const std::vector<void*>&) {};
}

}  // namespace heddle::testing
