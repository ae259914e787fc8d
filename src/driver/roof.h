// What a machine can do at best, to hold a kernel's time against.
#pragma once

#include "heddle/runtime/kernel.h"
#include "heddle/target/target.h"

namespace heddle {

/// For multiply-adds of `dtype` and for traffic of the main memory. Of a GPU from its data sheet;
/// of a CPU measured, for the threads that are in force, in some tens of ms at the first call and
/// kept. Arithmetic is known of f32 and f64; 0 for other types, whose instructions differ too much.
Roof roof_of(const Target& target, DataType dtype);

}  // namespace heddle
