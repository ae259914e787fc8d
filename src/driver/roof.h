// The peak rates of a machine, for comparison with the time of a kernel.
#pragma once

#include "heddle/runtime/kernel.h"
#include "heddle/target/target.h"

namespace heddle::driver {

/// The peak rates for multiply-adds of `dtype` and for moving `bytes`, which is the rate of a cache
/// where they fit into one. For a GPU they come from its data sheet, and the bytes move through its
/// main memory. For a CPU they are measured with the current number of threads, in some tens of ms
/// for each power of two of bytes, and kept. The rate of arithmetic is known for f32 and, on CPUs, f64,
/// on GPUs for shorter floats on matrix units. It is 0 for other types, whose instructions differ too
/// much.
Roof roof_of(const Target& target, DataType dtype, double bytes);

/// The least time that the roof allows for this work; 0: not known.
double least_seconds(const KernelWork& work);

}  // namespace heddle::driver
